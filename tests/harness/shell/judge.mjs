// Reads a JSON array of commands and writes a JSON array: [severity, category, [[code, part], …], commands] of each.
// An argument may hold { patterns, platform } of the host as JSON.
import { text } from "node:stream/consumers";
import { argv, stdin, stdout } from "node:process";
import { fileURLToPath } from "node:url";
import { classifyShellCommand, loadShellGrammar, ShellConfig } from "../../../web/harness/dist/index.js";

const wasm = new URL("../../../node_modules/tree-sitter-bash/tree-sitter-bash.wasm", import.meta.url);
const { patterns = [], platform = "unix" } = JSON.parse(argv[2] ?? "{}");
const config = new ShellConfig(patterns, platform, await loadShellGrammar(fileURLToPath(wasm)));
const verdicts = JSON.parse(await text(stdin)).map((command) => {
  const { severity, category, reasons, commands } = classifyShellCommand(command, config);
  return [severity, category, reasons.map(({ code, part }) => [code, part]), commands];
});
stdout.write(JSON.stringify(verdicts));
