/**
 * Options of a command, read by a small description of what each one means.
 *
 * A description has three sections split by `|`: short options, long options, operands. An option may end
 * with a sign: `=` takes text, `@` takes a path that is read, `>` takes a path that is written, `$` takes
 * shell code, `%` takes program text, `?` takes text only when it is attached, `!` makes the program run or
 * load something, `~` is known but more than a read; a plain flag has no sign (`abc` are three flags; `abc=`
 * are two, and one that takes text).
 *
 * Operands: `path`, `text`, `write`, `copy` (the last one is written), `link` (likewise, the others are
 * names), `command` (the rest is a command), `code` (the rest is shell code), `none`; the last kind repeats.
 */
import { Field } from "./scene.js";
import { partition, removePrefix, removeSuffix, splitWords } from "./text.js";

const SIGNS = "=@>$%?!~";
const WITH_VALUE = ["=", "@", ">", "$", "%"];
const WITH_VALUE_OR_RUN = [...WITH_VALUE, "!"];
const SHORT = /([^ ])([=@>$%?!~]?)/gu;

/** The options of a program by name, each with its sign, and its operand kinds. */
export class Description {
  constructor(
    readonly options: ReadonlyMap<string, string>,
    readonly operands: readonly string[],
  ) {}
}

/** One option that was given: its name, its sign, and its value. */
export class Option {
  constructor(
    readonly name: string,
    readonly sign: string,
    readonly value: Field | undefined,
  ) {}
}

/** The arguments of one call, sorted. */
export class Arguments {
  constructor(
    readonly options: Option[] = [],
    readonly unknown: Field[] = [],
    readonly operands: Field[] = [],
  ) {}
}

// Descriptions come from the tables alone, so there are only so many.
const descriptions = new Map<string, Description>();

/** Read a description; see the module's comment for its form. */
export function describe(text: string): Description {
  const known = descriptions.get(text);
  if (known !== undefined) return known;
  const [short = [], long = [], operands = []] = text.split("|").map(splitWords);
  const options = new Map<string, string>();
  for (const [, letter = "", sign = ""] of short.join(" ").matchAll(SHORT)) options.set(`-${letter}`, sign);
  for (const name of long) {
    const sign = SIGNS.includes(name.slice(-1)) ? name.slice(-1) : "";
    const dashed = name.startsWith("-") ? name : `--${name}`;
    options.set(removeSuffix(dashed, sign), sign);
  }
  const description = new Description(options, operands);
  descriptions.set(text, description);
  return description;
}

/**
 * Sort arguments into options and operands.
 *
 * A program that takes a command gets its operands word for word from the first one on.
 */
export function readArguments(description: Description, args: readonly Field[]): Arguments {
  const found = new Arguments();
  const stopsEarly = description.operands.includes("command") || description.operands.includes("code");
  let position = 0;
  for (let arg = args[position]; arg !== undefined; arg = args[position]) {
    position += 1;
    if (arg.text === "--") {
      found.operands.push(...args.slice(position));
      break;
    }
    if (!arg.text.startsWith("-") || arg.text === "-") {
      if (stopsEarly) {
        found.operands.push(...args.slice(position - 1));
        break;
      }
      found.operands.push(arg);
      continue;
    }
    position = readOption(description, arg, args, position, found);
  }
  return found;
}

function readOption(
  description: Description,
  arg: Field,
  args: readonly Field[],
  position: number,
  found: Arguments,
): number {
  const [name, equals, value] = partition(arg.text, "=");
  const sign = description.options.get(name);
  if (sign !== undefined && (arg.text.startsWith("--") || name.length > 2)) {
    if (equals) {
      found.options.push(new Option(name, sign, partOf(arg, value)));
      return position;
    }
    return takeValue(new Option(name, sign, undefined), args, position, found);
  }
  if (arg.text.startsWith("--")) {
    readUnknown(description, arg, name, found);
    return position;
  }
  return readCluster(description, arg, args, position, found);
}

function partOf(arg: Field, text: string): Field {
  return new Field(text, arg.raw, arg.isGlob, arg.isSure);
}

function takeValue(option: Option, args: readonly Field[], position: number, found: Arguments): number {
  const value = args[position];
  if (WITH_VALUE_OR_RUN.includes(option.sign) && value !== undefined) {
    found.options.push(new Option(option.name, option.sign, value));
    return position + 1;
  }
  found.options.push(option);
  return position;
}

function readUnknown(description: Description, arg: Field, name: string, found: Arguments): void {
  // Long options may be cut short: what could be a running option is taken for one.
  for (const [known, sign] of description.options) {
    if (sign === "!" && known.startsWith(name) && name.length > "--x".length) {
      found.options.push(new Option(known, sign, arg));
      return;
    }
  }
  found.unknown.push(arg);
}

function readCluster(
  description: Description,
  arg: Field,
  args: readonly Field[],
  position: number,
  found: Arguments,
): number {
  let rest = arg.text.slice(1);
  for (const letter of arg.text.slice(1)) {
    const sign = description.options.get(`-${letter}`);
    if (sign === undefined) {
      found.unknown.push(arg);
      return position;
    }
    rest = rest.slice(letter.length);
    const takesValue = WITH_VALUE_OR_RUN.includes(sign);
    if (sign === "?" || (takesValue && rest !== "")) {
      found.options.push(new Option(`-${letter}`, sign, partOf(arg, removePrefix(rest, "="))));
      return position;
    }
    if (takesValue) return takeValue(new Option(`-${letter}`, sign, undefined), args, position, found);
    found.options.push(new Option(`-${letter}`, sign, undefined));
  }
  return position;
}
