import { readFileSync } from "node:fs";

/** The shared cases of a kind, which the tests of every language run. */
export function readCases(kind: string): readonly unknown[] {
  const path = new URL(`../../../conformance/cases/${kind}.json`, import.meta.url);
  const file = JSON.parse(readFileSync(path, "utf-8").replaceAll("·", "")) as { readonly cases: readonly unknown[] };
  return file.cases;
}
