/**
 * Programs that run whatever they are given: no rule may always allow them.
 *
 * An "always allow" for `python` or `sudo` is an "always allow" for everything.
 */
import { FAMILIES, RUNNERS } from "./generated/policy-tables.js";

const SUFFIX = /(?:[-.]?[0-9][0-9.]*)?(?:-dbg)?(?:\.(?:exe|cmd|bat|com))?$/;

/**
 * Say whether commands that start with these words can run any program.
 *
 * The first word is read without its folder, version and case: /usr/bin/Python3.11 is python. A setting before
 * the program can change what it runs.
 */
export function runsAnything(words: readonly string[]): boolean {
  const [first = "", ...rest] = words;
  const [second] = rest;
  if (first.includes("=")) return true;
  const base = first.replaceAll("\\", "/").split("/").at(-1) ?? "";
  const names = [base, base.toLowerCase(), base.toLowerCase().replace(SUFFIX, "")];
  if (names.some((name) => RUNNERS.has(name))) return true;
  // A program with subcommands needs one that is named and harmless; an option may stand for anything.
  return names.some((name) => {
    const running = FAMILIES.get(name);
    if (running === undefined) return false;
    if (second === undefined || /^[-+]/.test(second)) return true;
    return rest.some((word) => running.split(" ").includes(word));
  });
}
