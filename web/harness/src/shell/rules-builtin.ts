/** Builtins of the shell. */
import { evaluateName } from "./arithmetic.js";
import type { Rule } from "./commands.js";
import { checkText, runPath } from "./effects.js";
import { isSecretVariable } from "./expand.js";
import { decodeEscapes } from "./escapes.js";
import { isSecretPath, kindOfPath, placed, splitPath } from "./paths.js";
import { noteUnset, VARIABLES } from "./rules-variables.js";
import type { Call } from "./scene.js";
import { COMPUTED, Field, UNKNOWNS } from "./scene.js";
import { runText } from "./stdin.js";
import { partition, startsWithAny, strip } from "./text.js";

const SET_OPTIONS = /^(?:[-+][befhmnuvxBCEHTo]+|errexit|nounset|pipefail|xtrace|noglob|noclobber|verbose)$/;

/** Print the arguments. */
function echo(call: Call): string {
  let args = call.args;
  let isEscaped = false;
  while (args[0] && /^-[neE]+$/.test(args[0].text)) {
    isEscaped = isEscaped || args[0].text.includes("e");
    args = args.slice(1);
  }
  noteUnset(call, call.args);
  const text = args.map((arg) => arg.text).join(" ");
  return (isEscaped ? decodeEscapes(text, true) : text) + "\n";
}

/** Change the folder. */
function cd(call: Call): string {
  const operands = call.args.filter((arg) => !/^(?:-[LPe@]+|--)$/.test(arg.text));
  const target = operands[0] ?? new Field("~", "~");
  const kind = target.text === "-" ? "outside" : kindOfPath(target, call.scene);
  if (isSecretPath(placed(target, call.scene))) call.note("unknown/search", target.raw);
  if (kind === "inside") {
    const segments = splitPath(target.text);
    const ups = segments.filter((segment) => segment === "..").length;
    call.scene.folder = `${call.scene.folder}/${target.text}`;
    call.scene.folderDepth += segments.length - 2 * ups;
    return "";
  }
  call.note(kind === "unknown" ? "unknown/dynamic" : "unknown/outside", target.raw);
  call.scene.isOutside = true;
  call.scene.folder = target.text;
  return "";
}

/** Go back to a folder that was left. */
function popd(call: Call): string {
  call.scene.isOutside = true;
  call.note("unknown/outside");
  return "";
}

/** Run the arguments as a program. */
function eval_(call: Call): string {
  call.note("unknown/dynamic");
  return runText(call, call.texts.join(" "), call.scene);
}

/** Run a file in this shell. */
function source(call: Call): string {
  const path = call.args[0];
  if (path) {
    if ((path.text === "/dev/stdin" || path.text === "-") && call.scene.stdin !== undefined) {
      return runText(call, call.scene.stdin, call.scene);
    }
    const piped = call.scene.pipes.get(path.text);
    if (piped !== undefined) {
      call.note("unknown/exec");
      return runText(call, piped, call.scene);
    }
    runPath(call, path);
    if (!strip(path.text, UNKNOWNS.join(""))) call.note("destructive/eval", path.raw);
  }
  call.note("unknown/exec");
  return COMPUTED;
}

/** Run code at a signal or at the end. */
function trap(call: Call): string {
  call.note("unknown/redefine");
  const [code, signal] = call.args;
  if (code && signal && !code.text.startsWith("-")) runText(call, code.text, call.scene.copy());
  return "";
}

/** Give a name another meaning. */
function alias(call: Call): string {
  call.note("unknown/redefine");
  for (const arg of call.args) {
    const [name, , value] = partition(arg.text, "=");
    call.scene.aliases.set(name, value);
  }
  return "";
}

/** Change the shell's behaviour. */
function shopt(call: Call): string {
  if (call.texts.some((text) => /^-[a-z]*[su]/.test(text))) {
    call.note("unknown/session");
    call.scene.expandsAliases = call.scene.expandsAliases || call.texts.includes("expand_aliases");
  }
  return COMPUTED;
}

/** Set options or the positional parameters; alone, print every variable. */
function set_(call: Call): string {
  const texts = call.texts;
  const first = texts[0];
  if (first === undefined) call.note("read/secret");
  if (texts.includes("--")) {
    call.scene.positional = call.args.slice(texts.indexOf("--") + 1);
  } else if (first !== undefined && !startsWithAny(first, ["-", "+"])) {
    call.scene.positional = call.args;
  } else if (!texts.every((text) => SET_OPTIONS.test(text))) {
    // Some options make an assignment out of any word, or export what is set.
    call.note("unknown/session");
  }
  return "";
}

/** Compare; some operators evaluate their operand. */
function test(call: Call): string {
  for (const [number, arg] of call.args.entries()) {
    call.engine.evaluateText(arg.text, call.scene);
    if (call.texts[number - 1] === "-v") evaluateName(arg.text, call.scene, call.engine);
  }
  return "";
}

/** Change nothing that outlives the command. */
function harmless(call: Call): string {
  for (const arg of call.args) {
    checkText(call, arg);
    call.engine.evaluateText(arg.text, call.scene);
  }
  return "";
}

/** Change the state of the shell. */
function session(call: Call): string {
  call.note("unknown/session");
  return "";
}

/** Send a signal. */
function kill(call: Call): string {
  if (call.texts[0] !== "-l" && call.texts[0] !== "-L") call.note("destructive/process");
  return "";
}

/** Show, rewrite or run again what was typed before. */
function history(call: Call): string {
  const options = call.texts.filter((text) => text.startsWith("-")).join("");
  if (call.name === "fc" && !options.includes("l")) call.note("destructive/eval");
  else if (call.name === "history" && /[cdwa]/.test(options)) call.note("destructive");
  else call.note("read/secret");
  return COMPUTED;
}

/** Load or switch builtins. */
function enable(call: Call): string {
  call.note(call.texts.includes("-f") ? "destructive/tool-exec" : "unknown/session");
  return "";
}

/** Tie keys or completions to commands. */
function bind(call: Call): string {
  const isRunning = call.texts.some((text) => text === "-x" || text === "-C" || text === "-F");
  call.note(isRunning ? "destructive/persist" : "unknown/session");
  for (const arg of call.args) call.engine.evaluateText(arg.text, call.scene);
  return COMPUTED;
}

/** Say where a command is, or run it. */
function command(call: Call): string {
  const first = call.texts[0];
  if (first === undefined) return "";
  if (first === "-v" || first === "-V") return call.texts.slice(1).join("\n");
  const words = first === "-p" ? call.args.slice(1) : call.args;
  return words.length > 0 ? call.engine.runWords(words, call.scene) : "";
}

/** Print the folder; it is the same as `.` to whoever uses it. */
function pwd(call: Call): string {
  for (const arg of call.args) {
    if (arg.text !== "-L" && arg.text !== "-P") call.note("unknown/option", arg.raw);
  }
  return ".\n";
}

/** Say where a program is. */
function which(call: Call): string {
  for (const arg of call.args) checkText(call, arg);
  return call.texts.filter((text) => !text.startsWith("-")).join("\n");
}

/** List jobs; with -x it runs a command. */
function jobs(call: Call): string {
  const option = call.texts.indexOf("-x");
  if (option >= 0) {
    const rest = call.args.slice(option + 1);
    call.engine.runWords(rest.length > 0 ? rest : call.args, call.scene);
    call.note("destructive/wrapper");
  }
  return COMPUTED;
}

/** Print variables of the environment. */
function printVariable(call: Call): string {
  const names = call.texts.filter((text) => !text.startsWith("-"));
  const isUnknown = names.some((name) => UNKNOWNS.some((mark) => name.includes(mark)));
  if (names.length === 0 || isUnknown || names.some(isSecretVariable)) call.note("read/secret");
  return COMPUTED;
}

/** Show or set the mask of new files. */
function umask(call: Call): string {
  if (call.texts.some((text) => !["-S", "-p", "-a", "-H", "-n"].includes(text))) call.note("unknown/session");
  return COMPUTED;
}

/** Replace the shell by a command; with none, only redirect. */
function exec_(call: Call): string {
  let args = call.args;
  while (args[0]?.text.startsWith("-")) {
    const option = args[0].text;
    args = args.slice(1);
    if (option.endsWith("a")) args = args.slice(1);
  }
  if (args.length === 0) return "";
  return call.engine.runWords(args, call.scene);
}

/** Run an applet by its name. */
function busybox(call: Call): string {
  call.note("unknown/program");
  let args = call.args;
  while (args[0]?.text.startsWith("--")) args = args.slice(1);
  if (args.length === 0) return COMPUTED;
  return call.engine.runWords(args, call.scene);
}

export const BUILTINS: ReadonlyMap<string, Rule> = new Map([
  ...VARIABLES,
  ["echo", echo],
  ["cd", cd],
  ["pushd", cd],
  ["popd", popd],
  ["eval", eval_],
  ["source", source],
  ["trap", trap],
  ["alias", alias],
  ["unalias", session],
  ["shopt", shopt],
  ["set", set_],
  ["test", test],
  ["[[", test],
  ["kill", kill],
  ["history", history],
  ["fc", history],
  ["enable", enable],
  ["bind", bind],
  ["complete", bind],
  ["compgen", bind],
  ["command", command],
  ["pwd", pwd],
  ["which", which],
  ["jobs", jobs],
  ["umask", umask],
  ["ulimit", umask],
  ["exec", exec_],
  ["busybox", busybox],
  ["toybox", busybox],
  ["printenv", printVariable],
  ["exit", harmless],
  ["return", harmless],
  ["break", harmless],
  ["continue", harmless],
  ["dirs", harmless],
  ["help", harmless],
  ["times", harmless],
  ["caller", harmless],
  ["disown", session],
  ["fg", session],
  ["bg", session],
  ["suspend", session],
  ["logout", session],
  ["coproc", session],
]);
