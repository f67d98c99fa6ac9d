/**
 * Checks of what a policy is made of: a slip is refused, and never guessed at.
 *
 * A rule that quietly matches nothing is a hole in the policy. Types do not help where rules come from a
 * file, so each of these returns a sentence that says what to do, or undefined if all is well.
 */

/** Check a list of texts: names, commands or words. */
export function problemOfTexts(value: unknown, what: string, of: string): string | undefined {
  return (
    problemOfList(value, what, of) ??
    first(value, (item) =>
      typeof item === "string" ? undefined : `${what} takes ${of} as texts, found ${kindOf(item)}`,
    )
  );
}

/** Check the words of every command. */
export function problemOfCommands(value: unknown): string | undefined {
  return (
    problemOfList(value, "commands", "commands") ?? first(value, (words) => problemOfTexts(words, "a command", "words"))
  );
}

/** Check a list of labels. */
export function problemOfLabels(value: unknown, what: string, known: readonly string[]): string | undefined {
  return problemOfList(value, what, "labels") ?? first(value, (label) => problemOfChoice(label, what, known));
}

/** Check that a value is a list, and not a text that was meant to be in one. */
export function problemOfList(value: unknown, what: string, of: string): string | undefined {
  if (Array.isArray(value)) return undefined;
  if (typeof value === "string") return `${what} takes a list of ${of}, found a text: write [${JSON.stringify(value)}]`;
  return `${what} takes a list of ${of}, found ${kindOf(value)}`;
}

/** Check that a value is one of the known ones. */
export function problemOfChoice(value: unknown, what: string, known: readonly string[]): string | undefined {
  const isKnown = typeof value === "string" && known.includes(value);
  return isKnown ? undefined : `${what} must be one of ${known.join(", ")}, found ${show(value)}`;
}

/** Check that a value is true or false: the text "no" counts as true. */
export function problemOfFlag(value: unknown, what: string): string | undefined {
  return typeof value === "boolean" ? undefined : `${what} must be true or false, found ${show(value)}`;
}

/** Check that a value is a text. */
export function problemOfText(value: unknown, what: string): string | undefined {
  return typeof value === "string" ? undefined : `${what} must be a text, found ${kindOf(value)}`;
}

/** Check that a value is an object with named fields. */
export function problemOfRecord(value: unknown, what: string): string | undefined {
  const isRecord = typeof value === "object" && value !== null && !Array.isArray(value);
  return isRecord ? undefined : `${what} must be an object, found ${kindOf(value)}`;
}

/** Check an optional field. */
export function ifGiven(value: unknown, check: (value: unknown) => string | undefined): string | undefined {
  return value === undefined ? undefined : check(value);
}

function first(list: unknown, check: (item: unknown) => string | undefined): string | undefined {
  for (const item of list as readonly unknown[]) {
    const problem = check(item);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function show(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : kindOf(value);
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return `a value of type ${Array.isArray(value) ? "array" : typeof value}`;
}
