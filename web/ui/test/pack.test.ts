import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PACKAGES = ["protocol", "harness", "ui"];
/** It compiles two packages. */
const PACK_MS = 600_000;

let folder = "";
beforeAll(() => {
  // A copy without anything that was built: packing builds, and other tests read what is built here.
  folder = mkdtempSync(join(tmpdir(), "windlass-pack-"));
  cpSync(join(ROOT, "tsconfig.base.json"), join(folder, "tsconfig.base.json"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  for (const name of PACKAGES) {
    const isSource = (path: string): boolean => !/\/(?:dist|node_modules)$|\.tsbuildinfo$/u.test(path);
    cpSync(join(ROOT, "web", name), join(folder, "web", name), { recursive: true, filter: isSource });
  }
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

it("every package is built before it is packed", { timeout: PACK_MS }, () => {
  const scripts = PACKAGES.map((name) => readFileSync(join(ROOT, "web", name, "package.json"), "utf8"));
  expect(scripts.every((text) => text.includes('"prepack": "tsc -b --force'))).toBe(true);
  // One of them for real: it refers to another, which is built with it.
  const options = { cwd: join(folder, "web/ui"), encoding: "utf8" } as const;
  const said = execFileSync(
    "npm",
    // The copy is no workspace of a root above it.
    ["pack", "--dry-run", "--json", "--ignore-scripts=false", "--no-workspaces"],
    options,
  );
  const [packed] = JSON.parse(said.slice(said.indexOf("["))) as [{ files: { path: string }[] }];
  const paths = packed.files.map(({ path }) => path);
  expect(paths).toContain("dist/index.js");
  expect(paths).toContain("dist/index.d.ts");
  expect(paths).toContain("dist/styles.css");
});
