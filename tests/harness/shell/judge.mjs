// Reads a JSON array of commands and writes a JSON array: [severity, category, [[code, part], …]] of each.
import { text } from "node:stream/consumers";
import { stdin, stdout } from "node:process";
import { fileURLToPath } from "node:url";
import { classifyShellCommand, loadShellGrammar, ShellConfig } from "../../../web/harness/dist/index.js";

const wasm = new URL("../../../node_modules/tree-sitter-bash/tree-sitter-bash.wasm", import.meta.url);
const config = new ShellConfig([], "unix", await loadShellGrammar(fileURLToPath(wasm)));
const verdicts = JSON.parse(await text(stdin)).map((command) => {
  const { severity, category, reasons } = classifyShellCommand(command, config);
  return [severity, category, reasons.map(({ code, part }) => [code, part])];
});
stdout.write(JSON.stringify(verdicts));
