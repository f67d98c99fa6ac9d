/** Tools of the system: processes, clock, packages, schedules, terminal. */
import { DATE_OPTIONS, PS_OPTIONS, READERS } from "../generated/shell-tables.js";
import type { Rule } from "./commands.js";
import { gradeReader } from "./commands.js";
import { readDescribed } from "./effects.js";
import { gradeFamily } from "./families.js";
import type { Call } from "./scene.js";
import { COMPUTED } from "./scene.js";
import { runText } from "./stdin.js";

/** Processes: the bare letter `e` shows their environment. */
function ps(call: Call): string {
  const args = call.args.filter((arg) => !/^(?:[A-Za-z]+|[0-9,]+)$/.test(arg.text));
  for (const text of call.texts) {
    if (/^[A-Za-z]*e[A-Za-z]*$/.test(text) || text.includes("environ") || text.startsWith("-E")) {
      call.note("read/secret");
    }
  }
  readDescribed(call.withArgs("ps", args), PS_OPTIONS);
  return COMPUTED;
}

/** The clock: showing it reads, anything else sets it. */
function date(call: Call): string {
  const args = readDescribed(call, DATE_OPTIONS);
  const sets = args.options.some((option) => option.name === "-s" || option.name === "--set");
  if (sets || args.unknown.some((unknown) => unknown.text.startsWith("--s"))) call.note("destructive/perm");
  for (const operand of args.operands) {
    if (!operand.text.startsWith("+")) call.note("destructive/perm", operand.raw);
  }
  return COMPUTED;
}

/** Terminal strings. */
function tput(call: Call): string {
  if (call.texts.includes("init") || call.texts.includes("reset")) call.note("unknown/session");
  return COMPUTED;
}

/** Scheduled commands: listing reads outside, anything else persists. */
function crontab(call: Call): string {
  const isListing = call.texts.length === 1 && call.texts[0] === "-l";
  call.note(isListing ? "unknown/outside" : "destructive/persist");
  return COMPUTED;
}

/** Commands that run later. */
function at(call: Call): string {
  call.note("destructive/persist");
  if (call.scene.stdin !== undefined) runText(call, call.scene.stdin, call.scene.copy());
  return COMPUTED;
}

/** Packages: a query reads, whatever its letters mean elsewhere. */
function rpm(call: Call): string {
  const isQuery = call.texts.some((text) => text === "--query" || /^-[a-zA-Z]*q[a-zA-Z]*$/.test(text));
  const words = call.texts.filter((text) => !/^-[qailfRpcd]+$/.test(text));
  if (isQuery && !gradeFamily(call, words)) return gradeReader(call, READERS.get("rpm") ?? "");
  if (!isQuery && !gradeFamily(call)) call.note("unknown/install");
  return COMPUTED;
}

/** The linker's cache: shown with -p, written by anything else. */
function ldconfig(call: Call): string {
  if (!call.texts.some((text) => text === "-p" || text === "--print-cache")) call.note("unknown/option");
  return gradeReader(call, READERS.get("ldconfig") ?? "");
}

export const SYSTEM: ReadonlyMap<string, Rule> = new Map([
  ["ps", ps],
  ["date", date],
  ["rpm", rpm],
  ["ldconfig", ldconfig],
  ["tput", tput],
  ["crontab", crontab],
  ["at", at],
  ["batch", at],
]);
