/** The shape of a parsed program: words made of parts, commands made of words. */

/** The text is not a shell program that this parser understands. */
export class ShellSyntaxError extends Error {
  override readonly name = "ShellSyntaxError";
}

/** A limit on nesting or work was reached. */
export class TooMuchWork extends Error {
  override readonly name = "TooMuchWork";
}

/** A counter instead of a clock: grading the same text always costs the same. */
export class Budget {
  constructor(public left: number) {}

  /** Use up some work; throws TooMuchWork when nothing is left. */
  spend(units = 1): void {
    this.left -= units;
    if (this.left < 0) {
      throw new TooMuchWork();
    }
  }
}

/** Plain text; `quoted` text is never split, globbed or brace-expanded. */
export class Text {
  constructor(
    readonly text: string,
    readonly quoted: boolean,
  ) {}
}

/** `$name` or `${name…}`; `operator` and `argument` are what follows the name. */
export class Parameter {
  constructor(
    readonly name: string,
    readonly prefix: string,
    readonly subscript: readonly Part[],
    readonly operator: string,
    readonly argument: readonly Part[],
    readonly quoted: boolean,
  ) {}
}

export type SubstitutionKind = "output" | "input-file" | "output-file";

/** `$(…)`, backticks, `<(…)` or `>(…)`. */
export class Substitution {
  constructor(
    readonly script: Script,
    readonly kind: SubstitutionKind,
    readonly quoted: boolean,
  ) {}
}

/** `$((…))`, `((…))`, or the inside of a subscript. */
export class Arithmetic {
  constructor(readonly parts: readonly Part[]) {}
}

/** The parenthesis of `name=(…)`. */
export class ArrayLiteral {
  constructor(readonly words: readonly Word[]) {}
}

export type Part = Text | Parameter | Substitution | Arithmetic | ArrayLiteral;

/** One shell word: its parts, and the text as it was written. */
export class Word {
  constructor(
    readonly parts: readonly Part[],
    readonly raw: string,
  ) {}
}

/** One redirection; a here-document gets its `body` once its lines are read. */
export class Redirect {
  constructor(
    readonly operator: string,
    readonly descriptor: string,
    readonly target: Word,
    public body?: Word,
  ) {}
}

/** A simple command: assignments, words, redirections. */
export class Simple {
  constructor(
    readonly assigns: readonly Word[],
    readonly words: readonly Word[],
    readonly redirects: readonly Redirect[],
    readonly raw: string,
  ) {}
}

export type CompoundKind =
  "subshell" | "group" | "if" | "loop" | "for" | "case" | "function" | "arithmetic" | "condition" | "coproc";

/** A compound command; `name` is the loop variable or the function's name. */
export class Compound {
  constructor(
    readonly kind: CompoundKind,
    readonly name: string,
    readonly words: readonly Word[],
    readonly bodies: readonly Script[],
    readonly redirects: readonly Redirect[],
    readonly raw: string,
  ) {}
}

/** Commands joined by `|`. */
export class Pipeline {
  constructor(readonly commands: readonly (Simple | Compound)[]) {}
}

/** A pipeline and the operator that ends it (`;`, `&`, `&&`, `||`, or nothing). */
export class Item {
  constructor(
    readonly pipeline: Pipeline,
    readonly operator: string,
  ) {}
}

/** A list of pipelines. */
export class Script {
  constructor(readonly items: readonly Item[]) {}
}
