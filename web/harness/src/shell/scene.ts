/** What is known while a program is walked: fields, variables, folder, input. */
import { replace } from "./replace.js";
import type { Arithmetic, Compound, Script } from "./tree.js";

// Text that is not known stands as one character that no input can hold (they are replaced on entry).
/** The value of a variable that this program did not set. */
export const UNSET = "\x00";
/** Output of a command that was itself graded. */
export const COMPUTED = "\x01";
/** File names below the working folder. */
export const NAMES = "\x02";
/** Text that came over the network. */
export const FETCHED = "\x03";
/** Text that was assembled or decoded, so that its meaning was hidden. */
export const DECODED = "\x04";
/** The value of a variable whose name says that it is a secret. */
export const SECRET = "\x05";
/** The gap between two elements of an array. */
export const BREAK = "\x1f";

export const UNKNOWNS: readonly string[] = [UNSET, COMPUTED, NAMES, FETCHED, DECODED, SECRET];

/** One argument after expansion; unknown stretches are marker characters. */
export class Field {
  constructor(
    readonly text: string,
    readonly raw: string,
    readonly isGlob = false,
    readonly isSure = true,
  ) {}

  /** Say whether any of these unknowns is part of the text. */
  holds(...markers: readonly string[]): boolean {
    return markers.some((marker) => this.text.includes(marker));
  }

  /** True when the text is exactly what the program will get. */
  get isKnown(): boolean {
    return this.isSure && !this.isGlob && !this.holds(...UNKNOWNS);
  }
}

/** Make a field of text that is known. */
export function fieldOf(text: string): Field {
  return new Field(text, text);
}

/** The state of the shell at one point of the program. */
export class Scene {
  values = new Map<string, readonly Field[]>();
  history = new Map<string, Field[]>();
  functions = new Map<string, Compound>();
  aliases = new Map<string, string>();
  positional: readonly Field[] | undefined = undefined;
  calls: readonly string[] = [];
  fetched = new Set<string>();
  pipes = new Map<string, string>();
  references = new Map<string, string>();
  integers = new Set<string>();
  folder = "";
  folderDepth = 0;
  isOutside = false;
  expandsAliases = false;
  stdin: string | undefined = undefined;
  depth = 0;
  callsDeep = 0;
  isTrial = false;

  /** Return a scene for a subshell: what it changes stays there. */
  copy(): Scene {
    return replace<Scene>(this, {
      values: new Map(this.values),
      functions: new Map(this.functions),
      aliases: new Map(this.aliases),
    });
  }

  /** Set a variable, and remember every value it ever had. */
  assign(name: string, value: readonly Field[]): void {
    const variable = this.references.get(name) ?? name;
    this.values.set(variable, value);
    const history = this.history.get(variable) ?? [];
    history.push(...value);
    this.history.set(variable, history);
  }
}

/** One command to grade: its name, its arguments, and where it runs. */
export class Call {
  constructor(
    readonly name: string,
    readonly args: readonly Field[],
    readonly scene: Scene,
    readonly engine: Engine,
    readonly raw: string,
  ) {}

  /** The arguments as text. */
  get texts(): string[] {
    return this.args.map((arg) => arg.text);
  }

  /** Report a finding about this call. */
  note(category: string, part = ""): void {
    this.engine.note(category, part || this.raw);
  }

  /** Return the same call with another name and other arguments. */
  withArgs(name: string, args: readonly Field[]): Call {
    return replace<Call>(this, { name, args });
  }
}

/** What the rules of single commands need from the walker. */
export interface Engine {
  /** Report a finding; the category decides how bad it is. */
  note(category: string, part: string): void;
  /** Use up work; throws TooMuchWork when none is left. */
  spend(units?: number): void;
  /** Grade text that a shell will run; return what it may print. */
  runCode(text: string, scene: Scene): string;
  /** Grade a parsed program; return what it may print. */
  runScript(script: Script, scene: Scene): string;
  /** Grade a command given as its words; return what it may print. */
  runWords(fields: readonly Field[], scene: Scene): string;
  /** Say whether these words, as a command, are dangerous; reports nothing. */
  isDangerous(fields: readonly Field[], scene: Scene): boolean;
  /** Say whether this text, as a program, is dangerous; reports nothing. */
  isDangerousCode(text: string, scene: Scene): boolean;
  /** Grade what an arithmetic expression runs. */
  arithmetic(expression: Arithmetic, scene: Scene): void;
  /** Grade the expansions of text that is expanded a second time. */
  evaluateText(text: string, scene: Scene): void;
}
