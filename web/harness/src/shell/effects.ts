/** What a call does to files: one rule for operands, options, redirections. */
import { LISTERS } from "../generated/shell-tables.js";
import type { Arguments, Option } from "./options.js";
import { describe, readArguments } from "./options.js";
import type { PathKind } from "./paths.js";
import {
  isDataPath,
  isFetchedPath,
  isPolicyPath,
  isScratchPath,
  isSecretPath,
  isStartupPath,
  kindOfPath,
  placed,
} from "./paths.js";
import { fullRegex, regex, startRegex } from "./regex.js";
import type { Call } from "./scene.js";
import { COMPUTED, DECODED, FETCHED, Field, UNSET } from "./scene.js";

const READ_NOTES = new Map<PathKind, string>([
  ["outside", "unknown/outside"],
  ["device", "destructive/device"],
  ["network", "destructive/exfil"],
  ["unknown", "unknown/dynamic"],
]);
const WRITE_NOTES: Record<Exclude<PathKind, "harmless">, string> = {
  outside: "destructive/outside",
  device: "destructive/device",
  network: "destructive/exfil",
  unknown: "unknown/dynamic",
  inside: "safe_write",
};
const IN_PLACE = ["-i", "--in-place", "--inplace"];
const RISKY_SIGNS = ["!", ">", "~", "$", "%"];
const SETUID = fullRegex("[0-7]*[2-7][0-7]{3}|[ugoa]*[+=][rwxXt]*s[rwxXt]*");
const WORLD = fullRegex(String.raw`0?[0-7]{2}[2367]|0?[0-7]{0,2}777|0?666|[ugoa]*[oa][ugoa]*[+=][rxX]*w.*|\+w`);
const URL = startRegex("[a-z][a-z0-9+.-]*://");
const REVISION_PATH = regex("^[^/]*?:(?=.)");

/** Report what reading this path means. */
export function readPath(call: Call, path: Field): void {
  if (path.text === "") return;
  if (path.text.startsWith("@")) {
    // Many programs read further options from such a file.
    call.note("unknown/dynamic", path.raw);
    readPath(call, new Field(path.text.slice(1), path.raw, path.isGlob, path.isSure));
  }
  if (isSecretPath(placed(path, call.scene)) || isSecretPath(afterRevision(path))) {
    const isListed = LISTERS.has(call.name) && kindOfPath(path, call.scene) === "inside";
    call.note(isListed ? "unknown/search" : "read/secret", path.raw);
  }
  if (URL.test(path.text)) call.note("unknown/network", path.raw);
  const category = READ_NOTES.get(kindOfPath(path, call.scene));
  if (category !== undefined) call.note(category, path.raw);
}

function afterRevision(path: Field): Field {
  // `HEAD:.env` names a file of the repository.
  return new Field(path.text.replace(REVISION_PATH, ""), path.raw, path.isGlob, path.isSure);
}

/**
 * Report what writing this path means.
 *
 * `truncates` says that nothing replaces what was there.
 */
export function writePath(call: Call, path: Field, truncates = false): void {
  const kind = kindOfPath(path, call.scene);
  if (kind === "harmless") return;
  const place = placed(path, call.scene);
  if (isPolicyPath(place)) {
    call.note("destructive/policy", path.raw);
  } else if (isStartupPath(place)) {
    call.note("destructive/persist", path.raw);
  } else if (isSecretPath(place) || truncates || (kind === "inside" && isDataPath(path))) {
    call.note("destructive", path.raw);
  }
  call.note(WRITE_NOTES[kind], path.raw);
}

/** Report permissions that set an id or let everybody write. */
export function noteMode(call: Call, mode: string): void {
  if (mode.split(",").some((part) => SETUID.test(part) || WORLD.test(part))) {
    call.note("destructive/perm", mode);
  }
}

/** Report what running the program text in this file means. */
export function runPath(call: Call, path: Field): void {
  readPath(call, path);
  if (path.holds(FETCHED) || isFetchedPath(path.text, call.scene)) {
    call.note("destructive/remote-code", path.raw);
  } else if (path.holds(DECODED) || isScratchPath(path.text)) {
    call.note("destructive/eval", path.raw);
  }
  call.note("unknown/exec", path.raw);
}

/** Report an argument that is not literal, so that it may be an option. */
export function checkText(call: Call, field: Field): void {
  if (!field.isSure || field.holds(UNSET, COMPUTED, FETCHED, DECODED)) {
    call.note("unknown/dynamic", field.raw);
  }
}

/** Report what the options of a described program do. */
export function applyOptions(call: Call, options: readonly Option[]): void {
  for (const option of options) {
    if (option.sign === "!") call.note("destructive/tool-exec", option.name);
    else if (option.sign === "~")
      call.note(IN_PLACE.includes(option.name) ? "safe_write" : "unknown/option", option.name);
    else if (option.value !== undefined) applyValue(call, option.sign, option.value);
  }
}

function applyValue(call: Call, sign: string, value: Field): void {
  switch (sign) {
    case "@":
      readPath(call, value);
      break;
    case ">":
      writePath(call, value);
      break;
    case "$":
      call.engine.runCode(value.text, call.scene.copy());
      break;
    default:
      checkText(call, value);
  }
}

/** Sort a call's arguments by a description and report what its options do. */
export function readDescribed(call: Call, text: string): Arguments {
  const description = describe(text);
  const found = readArguments(description, call.args);
  applyOptions(call, found.options);
  for (const unknown of found.unknown) call.note("unknown/option", unknown.raw);
  const mayBeOption = found.operands.some((arg) => arg.isGlob && "*?[".includes(arg.text.slice(0, 1)));
  if (mayBeOption && [...description.options.values()].some((sign) => RISKY_SIGNS.includes(sign))) {
    call.note("unknown/dynamic", "a file name may be read as an option");
  }
  return found;
}

/** Report what the operands of a described program mean; the last kind repeats. */
export function applyOperands(call: Call, operands: readonly Field[], kinds: readonly string[]): void {
  operands.forEach((operand, number) => {
    const kind = kinds[Math.min(number, kinds.length - 1)];
    const isLast = number === operands.length - 1;
    if ((kind === "copy" || kind === "link") && isLast && number > 0) {
      writePath(call, operand, operands[0]?.text === "/dev/null");
    } else {
      applyOperand(call, operand, kind);
    }
  });
}

function applyOperand(call: Call, operand: Field, kind: string | undefined): void {
  switch (kind) {
    case "path":
    case "copy":
      readPath(call, operand);
      break;
    case "write":
      writePath(call, operand);
      if (call.name === "mv" && operand.text === "/dev/null") call.note("destructive", operand.raw);
      break;
    case "link":
      linkTarget(call, operand);
      break;
    case "none":
      call.note("unknown/option", operand.raw);
      break;
    default:
      checkText(call, operand);
  }
}

function linkTarget(call: Call, target: Field): void {
  if (isSecretPath(target)) call.note("read/secret", target.raw);
  checkText(call, target);
}
