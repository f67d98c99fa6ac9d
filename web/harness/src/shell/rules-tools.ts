/** Tools whose arguments are small programs or have rules of their own. */
import { AWK_OPTIONS, HARMLESS_DEVICES, READERS, SED_OPTIONS, TAR_RISKY, WRITERS } from "../generated/shell-tables.js";
import type { Rule } from "./commands.js";
import { checkArguments, gradeSuffixes, printedBy } from "./commands.js";
import { checkText, noteMode, readDescribed, readPath, writePath } from "./effects.js";
import { gradeFamily } from "./families.js";
import type { Arguments } from "./options.js";
import { baseName, matchesExactly } from "./paths.js";
import { replace } from "./replace.js";
import { inspect, remoteRunner } from "./rules-run.js";
import { SYSTEM } from "./rules-system.js";
import type { Call, Field } from "./scene.js";
import { COMPUTED, DECODED, FETCHED, fieldOf } from "./scene.js";
import type { Effect } from "./scripts.js";
import { awkEffects, jqEffects, sedEffects } from "./scripts.js";
import { partition, splitWords, startsWithAny } from "./text.js";

const SED_EDITS = /^(-[nErsuz]*i).+/s;
const TAR_RISKY_OPTIONS = splitWords(TAR_RISKY);

/** Report what a small program does. */
function applyEffects(call: Call, effects: readonly Effect[]): void {
  for (const [category, part] of effects) {
    if (category === "read") {
      readPath(call, fieldOf(part));
    } else if (category === "write") {
      writePath(call, fieldOf(part));
      if (!HARMLESS_DEVICES.has(part)) call.note("destructive/tool-exec", part);
    } else {
      call.note(category, part);
    }
  }
}

/** Whether one of these options was given. */
function has(args: Arguments, ...names: readonly string[]): boolean {
  return args.options.some((option) => names.includes(option.name));
}

/** The values of these options. */
function valuesOf(args: Arguments, ...names: readonly string[]): readonly Field[] {
  return args.options.flatMap((option) => (names.includes(option.name) && option.value ? [option.value] : []));
}

/** The stream editor: its script may write, read and run. */
function sed(call: Call): string {
  // What is attached to -i is the ending of a copy, never more options.
  const given = call.args.map((arg) => replace<Field>(arg, { text: arg.text.replace(SED_EDITS, "$1") }));
  const args = readDescribed(call.withArgs("sed", given), SED_OPTIONS);
  let scripts = valuesOf(args, "-e", "--expression");
  let operands: readonly Field[] = args.operands;
  if (scripts.length === 0 && !has(args, "-f", "--file")) {
    scripts = operands.slice(0, 1);
    operands = operands.slice(1);
  }
  for (const script of scripts) {
    checkText(call, script);
    applyEffects(call, sedEffects(script.text));
  }
  const cut = args.unknown.map((unknown) => unknown.text.slice(0, 2));
  const isEditing = has(args, "-i", "--in-place") || cut.includes("-i");
  if (has(args, "-f", "--file") || cut.includes("-f")) call.note("unknown/exec");
  for (const operand of operands) {
    if (isEditing) writePath(call, operand);
    else readPath(call, operand);
  }
  return printedBy("sed", call.scene.stdin, operands.length > 0);
}

/** The pattern language: its program may write, read and run. */
function awk(call: Call): string {
  const args = readDescribed(call, AWK_OPTIONS);
  let scripts = valuesOf(args, "-e", "--source");
  let operands: readonly Field[] = args.operands;
  if (has(args, "-f", "--file")) {
    call.note("unknown/exec");
  } else if (scripts.length === 0) {
    scripts = operands.slice(0, 1);
    operands = operands.slice(1);
  }
  for (const script of scripts) {
    checkText(call, script);
    applyEffects(call, awkEffects(script.text));
  }
  for (const operand of operands) {
    if (!/^[A-Za-z_][\p{L}\p{N}_]*=/u.test(operand.text)) readPath(call, operand);
  }
  return printedBy("awk", call.scene.stdin, operands.length > 0);
}

/** Filters for JSON and YAML: they can read the environment and other files. */
function jq(call: Call): string {
  const given = withoutVariables(call);
  const args = readDescribed(call.withArgs(call.name, given), READERS.get(call.name) ?? "");
  let operands: readonly Field[] = args.operands;
  if (has(args, "-f", "--from-file")) {
    call.note("unknown/inline");
  } else {
    for (const program of operands.slice(0, 1)) {
      checkText(call, program);
      applyEffects(call, jqEffects(program.text));
    }
    operands = operands.slice(1);
  }
  const edits = args.options.some((option) => option.sign === "~");
  for (const operand of operands) {
    if (edits) writePath(call, operand);
    readPath(call, operand);
  }
  return printedBy("jq", call.scene.stdin, operands.length > 0);
}

/** Drop the options that set a variable, each with its two values. */
function withoutVariables(call: Call): readonly Field[] {
  const args = [...call.args];
  for (const option of ["--arg", "--argjson", "--slurpfile", "--rawfile"]) {
    for (;;) {
      const start = args.findIndex((arg) => arg.text === option);
      if (start < 0) break;
      const value = args[start + 2];
      if (value && (option === "--slurpfile" || option === "--rawfile")) readPath(call, value);
      args.splice(start, 3);
    }
  }
  return args;
}

/** Archives: listing reads, extracting writes, some options run programs. */
function tar(call: Call): string {
  const texts = call.texts.map((text, number) => (number === 0 && /^[A-Za-z0-9]+$/.test(text) ? `-${text}` : text));
  for (const text of texts) {
    if (text.startsWith("-") && matchesExactly(text, TAR_RISKY_OPTIONS)) call.note("destructive/tool-exec", text);
  }
  const flags = texts.filter((text) => /^-[A-Za-z0-9]+$/.test(text)).join("");
  if (/[PU]/.test(flags)) call.note("destructive/tool-exec", flags);
  const isListing = tarLists(flags, texts);
  const files = tarFiles(call, texts, isListing);
  if (!isListing) call.note("safe_write");
  if (isListing || flags.includes("c")) {
    for (const path of files) readPath(call, path);
  }
  checkArguments(call);
  return DECODED;
}

function tarLists(flags: string, texts: readonly string[]): boolean {
  return (flags.includes("t") || texts.includes("--list")) && !/[cxru]/.test(flags) && !texts.includes("--extract");
}

function tarFiles(call: Call, texts: readonly string[], isListing: boolean): Field[] {
  const files: Field[] = [];
  let previous = "";
  for (const text of texts) {
    const field = fieldOf(/^--(?:directory|file)=/.test(text) ? partition(text, "=")[2] : text);
    const takesFolder = /^(?:-C|--directory)$/.test(previous) || text.startsWith("--directory=");
    const takesFile = /^(?:-[A-Za-z]*f|--file)$/.test(previous) || text.startsWith("--file=");
    if (takesFolder && !isListing) writePath(call, field);
    else if (takesFile && !isListing && /[cru]/.test(previous + texts.slice(0, 1).join(""))) tarTarget(call, field);
    else if (!text.startsWith("-")) files.push(field);
    previous = text;
  }
  return files;
}

function tarTarget(call: Call, path: Field): void {
  if (/^[\p{L}\p{N}_.@-]+:/u.test(path.text)) call.note("destructive/exfil", path.raw);
  else if (path.text !== "-") writePath(call, path);
}

/** Permissions: recursive, set-id and world-writable ones are dangerous. */
function chmod(call: Call): string {
  call.note("safe_write");
  const isRecursive = call.texts.some((text) => /^-(?:R|-rec|[a-z]*R)/.test(text));
  const operands = call.args.filter((arg) => !/^-(?:[cfvR]+(?=\n?$)|-)/.test(arg.text));
  noteMode(call, operands[0]?.text ?? "");
  if (isRecursive) call.note("destructive/perm");
  for (const operand of operands.slice(1)) writePath(call, operand);
  return "";
}

/** Ownership. */
function chown(call: Call): string {
  call.note("destructive/perm");
  return "";
}

/** The first operand is read, a second one is written. */
function readThenWrite(call: Call, operands: readonly Field[]): void {
  for (const operand of operands.slice(0, 1)) readPath(call, operand);
  // A pattern may stand for two names.
  const hasPattern = operands.some((operand) => operand.isGlob);
  for (const operand of hasPattern ? operands : operands.slice(1)) writePath(call, operand);
}

/** Filter repeated lines; a second operand is written. */
function uniq(call: Call): string {
  const { operands } = readDescribed(call, READERS.get("uniq") ?? "");
  readThenWrite(call, operands);
  return printedBy("uniq", call.scene.stdin, operands.length > 0);
}

/** Dump bytes; with -r or a second operand it writes them back. */
function xxd(call: Call): string {
  const isReverse = call.texts.some((text) => /^(?:-[a-z]*r[a-z]*|-revert)$/.test(text));
  const args = call.args.filter((arg) => !/^(?:-r|-p|-ps|-plain|-revert|-rp|-pr)$/.test(arg.text));
  readThenWrite(call, readDescribed(call.withArgs("xxd", args), READERS.get("xxd") ?? "").operands);
  return isReverse ? DECODED : COMPUTED;
}

/** Make an empty file or folder, and print its name. */
function mktemp(call: Call): string {
  call.note("safe_write");
  const last = call.texts.filter((text) => !text.startsWith("-")).at(-1);
  return last !== undefined && !call.texts.includes("-t") ? last : "/tmp/tmp.mktemp";
}

/** Builds: project code, unless the makefile itself comes from the arguments. */
function make(call: Call): string {
  call.note("unknown/exec");
  for (const [number, text] of call.texts.entries()) {
    const following = call.texts[number + 1] ?? "";
    const isRisky = startsWithAny(text, ["--eval", "-E", "SHELL=", "MAKEFLAGS=", ".SHELLFLAGS="]);
    if (isRisky || text.includes("$(shell")) call.note("destructive/tool-exec", text);
    const takesFile = ["-f", "--file", "--makefile"].includes(text);
    if (takesFile || ["-C", "--directory", "-I"].includes(text)) readPath(call, fieldOf(following));
    if (takesFile && (following === "-" || following === "/dev/stdin")) {
      call.note("destructive/tool-exec", text);
      inspect(call, call.scene.stdin ?? "");
    }
  }
  checkArguments(call);
  return COMPUTED;
}

/** A client that takes its commands as words, in any case. */
function redis(call: Call): string {
  call.note("unknown/network");
  gradeFamily(
    call,
    call.texts.map((text) => text.toLowerCase()),
  );
  if (call.scene.stdin !== undefined) inspect(call, call.scene.stdin);
  return COMPUTED;
}

/** Containers and clusters: the family's rules, and the command that runs inside. */
function container(call: Call): string {
  gradeFamily(call);
  call.note("unknown/network");
  const words = call.texts.filter((text) => !text.startsWith("-"));
  if (call.name === "docker") mounts(call);
  if (["exec", "run", "debug", "compose", "container", "create", "attach"].includes(words[0] ?? "")) {
    gradeSuffixes(call);
    if (words.slice(0, 2).includes("exec")) gradeInside(call);
  }
  checkArguments(call);
  return COMPUTED;
}

function gradeInside(call: Call): void {
  const start = call.texts.indexOf("--");
  const tail = call.args.slice(start + 1);
  if (start >= 0 && tail.length > 0) call.engine.runWords(tail, call.scene.copy());
}

function mounts(call: Call): void {
  for (const [number, text] of call.texts.entries()) {
    const following = text === "-v" || text === "--volume" ? call.texts[number + 1] : undefined;
    const value = /^(?:-v|--volume=)([^\n]+)/.exec(text)?.[1] ?? following ?? "";
    if (/^(?:\/|~|\.\.|[A-Za-z]:\\)/.test(value) || value.includes("docker.sock")) call.note("destructive/priv", value);
  }
}

/** Write the input to files and pass it on. */
function tee(call: Call): string {
  call.note("safe_write");
  for (const arg of call.args) {
    if (!/^(?:-[aip]+|--append|--ignore-interrupts|--output-error[^\n]*|--)$/.test(arg.text)) {
      writePath(call, arg, call.scene.stdin === "");
      if (call.scene.stdin?.includes(FETCHED)) call.scene.fetched.add(baseName(arg.text));
    }
  }
  return call.scene.stdin ?? COMPUTED;
}

/** Unpack; some options only list or print. */
function unzip(call: Call): string {
  const isListing = call.texts.some((text) => /^-[a-zA-Z]*[lvtZ][a-zA-Z]*$/.test(text));
  for (const operand of readDescribed(call, WRITERS.get("unzip") ?? "").operands) readPath(call, operand);
  if (!isListing || call.texts.includes("-d")) call.note("safe_write");
  return DECODED;
}

/** Package runners. */
function versionOrInstall(call: Call): string {
  gradeFamily(call);
  return remoteRunner(call);
}

/** Deno: `eval` is inline code, a remote script is remote code. */
function deno(call: Call): string {
  call.note("unknown/exec");
  const texts = call.texts;
  if (texts[0] === "eval") inspect(call, texts.slice(1).join(" "));
  if (texts.some((text) => /^(?:https?:|npm:|jsr:)/.test(text))) call.note("destructive/remote-code");
  if (texts.some((text) => /^(?:-A(?=\n?$)|--allow-(?:all|run|ffi|env|net))/.test(text))) {
    call.note("destructive/tool-exec");
  }
  return COMPUTED;
}

export const TOOLS: ReadonlyMap<string, Rule> = new Map([
  ...SYSTEM,
  ["sed", sed],
  ["awk", awk],
  ["jq", jq],
  ["yq", jq],
  ["tar", tar],
  ["chmod", chmod],
  ["chown", chown],
  ["chgrp", chown],
  ["uniq", uniq],
  ["xxd", xxd],
  ["mktemp", mktemp],
  ["unzip", unzip],
  ["make", make],
  ["redis-cli", redis],
  ["docker", container],
  ["kubectl", container],
  ["tee", tee],
  ["npx", versionOrInstall],
  ["bunx", versionOrInstall],
  ["deno", deno],
]);
