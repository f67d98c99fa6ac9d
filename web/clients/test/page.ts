/** The programs of docs/electron.md. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const PAGE = fileURLToPath(new URL("../../../docs/electron.md", import.meta.url));

/** Returns the programs by the names in their first lines. */
export function readPrograms(): ReadonlyMap<string, string> {
  const blocks = readFileSync(PAGE, "utf8").matchAll(/^```\w+\n\/\/ (\S+)\n(.*?)^```$/gmsu);
  return new Map([...blocks].map(([, name = "", code = ""]) => [name, code]));
}
