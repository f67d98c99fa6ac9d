import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, it } from "vitest";

const WEB = fileURLToPath(new URL("../../", import.meta.url));
const PACKAGES = readdirSync(WEB).filter((name) => ts.sys.fileExists(join(WEB, name, "README.md")) && !isApp(name));
const FENCE = /^```(tsx?)\n(.*?)^```$/gmsu;

/** Whether a package is not for import, so that its README has no program to show. */
function isApp(name: string): boolean {
  return (JSON.parse(readFileSync(join(WEB, name, "package.json"), "utf8")) as { private?: boolean }).private === true;
}

/** The programs of a page, its README when absent, as files that would lie in the package. */
function programs(name: string, page = join(WEB, name, "README.md")): Map<string, string> {
  const text = readFileSync(page, "utf8");
  const blocks = [...text.matchAll(FENCE)];
  return new Map(
    blocks.map(([, kind = "", code = ""], at) => [join(WEB, name, "test", `readme-${at + 1}.${kind}`), code]),
  );
}

function problems(files: ReadonlyMap<string, string>): string[] {
  const base = ts.readConfigFile(join(dirname(WEB), "..", "tsconfig.base.json"), ts.sys.readFile.bind(ts.sys));
  const raw = (base.config ?? {}) as { compilerOptions: object };
  const wanted = { ...raw.compilerOptions, composite: false, noEmit: true, jsx: "react-jsx", types: ["node"] };
  const lib = ["es2023", "dom", "dom.iterable"];
  const { options } = ts.convertCompilerOptionsFromJson({ ...wanted, lib }, WEB);
  const host = ts.createCompilerHost(options);
  const usual = { ...host };
  host.fileExists = (path) => files.has(path) || usual.fileExists(path);
  host.readFile = (path) => files.get(path) ?? usual.readFile(path);
  host.getSourceFile = (path, version, ...rest) => {
    const text = files.get(path);
    return text === undefined ? usual.getSourceFile(path, version, ...rest) : ts.createSourceFile(path, text, version);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files.keys()].flatMap((path) => {
    const source = program.getSourceFile(path);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return found.map((one) => `${path}: ${ts.flattenDiagnosticMessageText(one.messageText, "\n")}`);
  });
}

it("every program of every README fits the types of its package, and one that does not would be found", () => {
  const files = new Map(PACKAGES.flatMap((name) => [...programs(name)]));
  for (const [path, code] of programs("ui", join(WEB, "..", "docs", "electron.md"))) {
    const name = /^\/\/ (\S+)\n/u.exec(code)?.[1] ?? "";
    files.set(join(dirname(path), name), code);
  }
  expect(new Set([...files.keys()].map((path) => dirname(path))).size).toBe(PACKAGES.length);
  const wrong = join(WEB, "protocol", "test", "readme-wrong.ts");
  files.set(wrong, "export const wrong: number = 'text';");
  expect(problems(files)).toEqual([`${wrong}: Type 'string' is not assignable to type 'number'.`]);
}, 120_000);
