/** Small parts of the walk over a program. */
import { evaluateName } from "./arithmetic.js";
import type { Severity } from "./model.js";
import { startRegex } from "./regex.js";
import { replace } from "./replace.js";
import type { Engine, Scene } from "./scene.js";
import { COMPUTED, Field } from "./scene.js";
import { partition, startsWithAny, strip } from "./text.js";
import type { Compound, Part, Redirect, Script, Word } from "./tree.js";
import { Parameter, ShellSyntaxError, Simple } from "./tree.js";

/** A category and the offending text. */
export type Finding = readonly [string, string];

const SILENT = startRegex(String.raw`(?::|true|false|cat\s*0?<?\s*/dev/null|echo -n(?: ''| "")?|printf (?:''|""|%s))$`);

/** How bad a category is. */
export function severityOf(category: string): Severity {
  return startsWithAny(category, ["destructive", "read/"]) ? "dangerous" : "caution";
}

/** What a reader of text returns, or undefined if the text is not what it reads. */
export function parsed<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ShellSyntaxError) return undefined;
    throw error;
  }
}

/** After a branch that may not have run, a variable it set may hold either value. */
export function blur(before: ReadonlyMap<string, readonly Field[]>, scene: Scene): void {
  for (const [name, value] of scene.values) {
    const old = before.get(name);
    const isSame = old?.length === value.length && old.every((field, number) => field.text === value[number]?.text);
    if (!isSame) scene.values.set(name, [new Field(COMPUTED, "", false, false)]);
  }
}

/** The texts of fields, joined by blanks. */
export function textsOf(fields: readonly Field[]): string {
  return fields.map((field) => field.text).join(" ");
}

/** The word of a compound command that has one. */
export function firstWord(command: Compound): Word {
  const [word] = command.words;
  if (!word) throw new RangeError("a command has no word");
  return word;
}

/** The body of a compound command, or the first of them. */
export function firstBody(command: Compound): Script {
  const [body] = command.bodies;
  if (!body) throw new RangeError("a command has no body");
  return body;
}

/** The names of the variables in a word. */
export function parametersOf(parts: readonly Part[]): string[] {
  return parts.flatMap((part) => (part instanceof Parameter ? [part.name] : []));
}

/** Whether a loop with this condition may never end. */
export function neverFails(condition: Script): boolean {
  const last = condition.items.at(-1)?.pipeline.commands.at(-1);
  return last instanceof Simple && last.words.length === 1 && ["true", ":", "false"].includes(last.words[0]?.raw ?? "");
}

/** Give a command its input, or another descriptor its text. */
export function feed(scene: Scene, redirect: Redirect, text: string): void {
  if (["", "0"].includes(redirect.descriptor)) scene.stdin = text;
  else scene.pipes.set(`/dev/fd/${redirect.descriptor}`, text);
}

/** Whether a redirection empties the file; `isEmpty` says that there is no command. */
export function truncates(operator: string, raw: string, isEmpty: boolean): boolean {
  return operator !== ">>" && (isEmpty || ((operator === ">" || operator === ">|") && printsNothing(raw)));
}

function printsNothing(raw: string): boolean {
  return SILENT.test(strip(partition(raw, ">")[0]));
}

/** The values of a list whose elements land where their subscripts, which are evaluated, say: none is sure. */
export function placed(head: string, value: readonly Field[], scene: Scene, engine: Engine): Field[] {
  const texts = value.filter((field) => field.text.startsWith("[")).map((field) => partition(field.text, "]")[0]);
  for (const text of [head, ...texts]) evaluateName(text, scene, engine);
  return value.map((field) => replace<Field>(field, { isSure: false }));
}
