/** The words of a program that is nothing but literal simple commands. */
import type { Commands } from "./model.js";
import type { Compound, Redirect, Script, Word } from "./tree.js";
import { Simple, Text } from "./tree.js";

const ACTIVE = /[*?[\]{}~!]/;

/** The words of each command, or nothing if any of them could become something else. */
export function literalCommands(script: Script): Commands {
  const found: string[][] = [];
  for (const item of script.items) {
    if (item.operator === "&") return [];
    for (const command of item.pipeline.commands) {
      if (!isLiteral(command)) return [];
      found.push(command.words.map(textOf));
    }
  }
  return found.every((words) => words.length > 0) ? found : [];
}

function isLiteral(command: Simple | Compound): command is Simple {
  return (
    command instanceof Simple &&
    command.assigns.length === 0 &&
    command.words.every(isLiteralWord) &&
    command.redirects.every(writesNothing)
  );
}

function isLiteralWord(word: Word): boolean {
  return word.parts.every((part) => part instanceof Text && (part.quoted || !ACTIVE.test(part.text)));
}

function textOf(word: Word): string {
  return word.parts.map((part) => (part instanceof Text ? part.text : "")).join("");
}

function writesNothing(redirect: Redirect): boolean {
  if (redirect.operator === ">&" || redirect.operator === "<&") return /^[0-9]+$/.test(redirect.target.raw);
  return redirect.target.raw === "/dev/null" && !redirect.descriptor.startsWith("{");
}
