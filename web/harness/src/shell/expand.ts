/** From words to fields: what the command will get, as far as it can be known. */
import {
  BRACE_FIELDS_MAX,
  HARMLESS_VARIABLES,
  KNOWN_VALUES,
  SECRET_VARIABLE,
  VALUE_CHARS_MAX,
} from "../generated/shell-tables.js";
import { evaluateNumber } from "./arithmetic.js";
import { replace } from "./replace.js";
import { BREAK, Call, COMPUTED, type Engine, Field, type Scene, SECRET, UNKNOWNS, UNSET } from "./scene.js";
import { setVariable } from "./settings.js";
import { partition, removePrefix, removeSuffix } from "./text.js";
import { Arithmetic, ArrayLiteral, Parameter, type Part, Substitution, Text, TooMuchWork, type Word } from "./tree.js";

// In Python `$` also matches before a newline at the end.
const SECRET_NAME = new RegExp(SECRET_VARIABLE.replaceAll("$", "(?=\\n?$)"), "iu");
const GLOB = /[*?]|\[[^\]]+\]/;
const SEQUENCE = /^(?:(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})|([A-Za-z])\.\.([A-Za-z]))(?:\.\.-?[0-9]{1,6})?$/;
const WIDE_SEQUENCE = /^-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?$/;
const PATTERN = /[*?[\\]/;
const SLICE = /^ ?(-?[0-9]{1,4})(?::(-?[0-9]{1,4}))?$/;
const DIGITS = /^[0-9]+$/;
const INDEX = /^[0-9]{1,4}$/;
const FIELD_BREAKS = new RegExp(`[ \\t\\n${BREAK}]+`);
const FIRST_OPAQUE = 0xe000;
const OPAQUE_MAX = 0x1800;
const FIRST_PIPE = 63;
const DEFAULTS = new Set([":-", "-", ":=", "=", ":+", "+"]);

type PieceKind = "plain" | "quoted" | "expanded";

class Piece {
  constructor(
    readonly text: string,
    readonly kind: PieceKind,
    readonly isSure = true,
  ) {}
}

/** Expand one word into the fields it becomes; grades what expansion runs. */
export function expandWord(word: Word, scene: Scene, engine: Engine): Field[] {
  const found: Piece[] = [];
  for (const part of word.parts) {
    engine.spend();
    found.push(...pieces(part, scene, engine));
  }
  const fields: Field[] = [];
  for (const variant of braceVariants(found)) {
    fields.push(...split(variant, word.raw));
  }
  engine.spend(fields.length);
  return fields;
}

/** Expand a word that stays one field: an assignment, a here-document, a case word. */
export function expandJoined(word: Word, scene: Scene, engine: Engine): Field {
  const found = word.parts.flatMap((part) => pieces(part, scene, engine));
  const text = bounded(found.map((piece) => piece.text.replaceAll(BREAK, " ")).join(""));
  const hasGlob = found.some((piece) => piece.kind === "plain" && GLOB.test(piece.text));
  return new Field(text, word.raw, hasGlob, areSure(found));
}

function areSure(found: readonly (Piece | Field)[]): boolean {
  return found.every((piece) => piece.isSure);
}

function textOf(found: readonly Piece[]): string {
  return found.map((piece) => piece.text).join("");
}

function bounded(text: string): string {
  if (text.length > VALUE_CHARS_MAX && Array.from(text).length > VALUE_CHARS_MAX) {
    throw new TooMuchWork();
  }
  return text;
}

/** Say whether a variable's name says that its value is a secret. */
export function isSecretVariable(name: string): boolean {
  return !HARMLESS_VARIABLES.has(name) && SECRET_NAME.test(name);
}

function pieces(part: Part, scene: Scene, engine: Engine): Piece[] {
  if (part instanceof Text) {
    return [new Piece(part.text, part.quoted ? "quoted" : "plain")];
  }
  if (part instanceof Arithmetic) {
    engine.arithmetic(part, scene);
    return [new Piece("0", "quoted")];
  }
  if (part instanceof ArrayLiteral) {
    const fields = part.words.flatMap((word) => expandWord(word, scene, engine));
    return [new Piece(fields.map((found) => found.text).join(BREAK), "quoted")];
  }
  if (part instanceof Substitution) {
    return [substitution(part, scene, engine)];
  }
  part satisfies Parameter;
  return parameter(part, scene, engine);
}

function substitution(part: Substitution, scene: Scene, engine: Engine): Piece {
  const inner = scene.copy();
  inner.stdin = undefined;
  const output = engine.runScript(part.script, inner);
  if (part.kind === "output") {
    return new Piece(withoutLastNewlines(output), part.quoted ? "quoted" : "expanded");
  }
  // The word becomes the name of a pipe; keep what flows through it for those who read code from files.
  const marks = UNKNOWNS.slice(3).filter((marker) => output.includes(marker));
  const name = `/dev/fd/${FIRST_PIPE + scene.pipes.size}${marks.sort().join("")}`;
  scene.pipes.set(name, output);
  return new Piece(name, "quoted");
}

function withoutLastNewlines(text: string): string {
  let end = text.length;
  while (text.charAt(end - 1) === "\n") {
    end -= 1;
  }
  return text.slice(0, end);
}

function parameter(part: Parameter, scene: Scene, engine: Engine): Piece[] {
  const kind = part.quoted ? "quoted" : "expanded";
  if (part.subscript.length && !isWhole(part)) {
    engine.arithmetic(new Arithmetic(part.subscript), scene);
  }
  if (part.prefix === "#") {
    return [new Piece("1", "quoted")];
  }
  const value = lookup(part, scene);
  if (DEFAULTS.has(part.operator)) {
    return defaulted(part, value, scene, engine);
  }
  const argument = part.argument.flatMap((inner) => pieces(inner, scene, engine));
  if (value === undefined) {
    return [new Piece(unknown(part), kind, false)];
  }
  evaluateAgain(part, value.text, textOf(argument), scene, engine);
  const text = part.operator ? transformed(part, value.text, textOf(argument)) : value.text;
  if (text === undefined) {
    return [new Piece(COMPUTED, kind, false)];
  }
  return text || part.quoted ? [new Piece(text, kind, value.isSure)] : [];
}

/** Grade what an operator evaluates once more: a prompt, or the numbers of a slice. */
function evaluateAgain(part: Parameter, text: string, argument: string, scene: Scene, engine: Engine): void {
  if (part.operator === "@P") engine.evaluateText(text, scene);
  if (part.operator === ":") evaluateNumber(argument, scene, engine);
}

function subscriptOf(part: Parameter): string {
  return part.subscript.map((inner) => (inner instanceof Text ? inner.text : "")).join("");
}

function unknown(part: Parameter): string {
  if (part.prefix === "!") {
    return UNSET;
  }
  if (HARMLESS_VARIABLES.has(part.name)) {
    return COMPUTED;
  }
  return isSecretVariable(part.name) ? SECRET : UNSET;
}

function lookup(part: Parameter, scene: Scene): Field | undefined {
  if (part.name === "@" || part.name === "*" || DIGITS.test(part.name)) {
    return positional(part.name, scene);
  }
  const values = valuesOf(part, scene);
  if (values === undefined) {
    const known = part.prefix ? undefined : KNOWN_VALUES.get(part.name);
    return known === undefined ? undefined : new Field(known, "");
  }
  return isWhole(part) ? joined(values) : element(part, values);
}

/** Whether every element of an array is meant. */
function isWhole(part: Parameter): boolean {
  return ["@", "*"].includes(subscriptOf(part));
}

function element(part: Parameter, values: readonly Field[]): Field {
  const subscript = subscriptOf(part);
  const isIndex = INDEX.test(subscript) || part.subscript.length === 0;
  const missing = areSure(values) ? new Field("", "") : new Field(COMPUTED, "", false, false);
  const value = values[isIndex && subscript ? Number(subscript) : 0] ?? missing;
  return isIndex ? value : replace<Field>(value, { isSure: false });
}

function valuesOf(part: Parameter, scene: Scene): readonly Field[] | undefined {
  const values = scene.values.get(scene.references.get(part.name) ?? part.name);
  const first = values?.[0];
  return part.prefix === "!" && first ? scene.values.get(first.text) : values;
}

function joined(values: readonly Field[]): Field {
  return new Field(values.map((value) => value.text).join(BREAK), "", false, areSure(values));
}

function positional(name: string, scene: Scene): Field | undefined {
  if (name === "0") {
    return scene.values.get("0")?.[0] ?? new Field("bash", "$0");
  }
  if (scene.positional === undefined) {
    return undefined;
  }
  if (name === "@" || name === "*") {
    return joined(scene.positional);
  }
  return scene.positional.at(Number(name) - 1) ?? new Field("", "");
}

function defaulted(part: Parameter, value: Field | undefined, scene: Scene, engine: Engine): Piece[] {
  const kind = part.quoted ? "quoted" : "expanded";
  const wantsArgument = part.operator.endsWith("+");
  const isSet = value !== undefined && (value.text !== "" || !part.operator.includes(":"));
  if (value !== undefined && isSet !== wantsArgument) {
    return [new Piece(wantsArgument ? "" : value.text, kind, value.isSure)];
  }
  const argument = part.argument.flatMap((inner) => pieces(inner, scene, engine));
  const sure = value !== undefined;
  const found = argument.map((piece) =>
    replace(piece, { kind: piece.kind === "plain" ? kind : piece.kind, isSure: sure }),
  );
  if (part.operator.endsWith("=")) {
    const call = new Call(part.name, [], scene, engine, `\${${part.name}=}`);
    setVariable(call, part.name, [new Field(textOf(found), "", false, sure)]);
  }
  if (!sure && isSecretVariable(part.name) && !wantsArgument) {
    return [new Piece(SECRET, kind, false)];
  }
  return found.length ? found : [new Piece("", kind, sure)];
}

/** What an operator makes of a value, or undefined when that cannot be said for sure. */
function transformed(part: Parameter, text: string, argument: string): string | undefined {
  if (["?", ":?"].includes(part.operator) || UNKNOWNS.some((char) => text.includes(char))) {
    return text;
  }
  const isList = ["@", "*"].includes(part.name) || isWhole(part);
  if (isList || UNKNOWNS.some((char) => argument.includes(char)) || PATTERN.test(argument)) {
    return undefined;
  }
  return TRANSFORMS.get(part.operator)?.(text, argument, part.operator);
}

type Transform = (text: string, argument: string, operator: string) => string | undefined;

const TRANSFORMS: ReadonlyMap<string, Transform> = new Map<string, Transform>([
  ["^", recased],
  ["^^", recased],
  [",", recased],
  [",,", recased],
  ["/", replaced],
  ["//", replaced],
  ["#", removePrefix],
  ["##", removePrefix],
  ["%", removeSuffix],
  ["%%", removeSuffix],
  [":", sliced],
]);

function recased(text: string, argument: string, operator: string): string | undefined {
  if (argument) return undefined;
  const [letter = ""] = text;
  const first = operator.length > 1 ? text : letter;
  return (operator.startsWith("^") ? first.toUpperCase() : first.toLowerCase()) + text.slice(first.length);
}

function replaced(text: string, argument: string, operator: string): string | undefined {
  const [plain, , replacement] = partition(argument, "/");
  if (!plain) return undefined;
  return operator === "//" ? text.split(plain).join(replacement) : text.replace(plain, () => replacement);
}

function sliced(text: string, argument: string): string | undefined {
  const found = SLICE.exec(argument);
  if (!found) return undefined;
  const rest = Array.from(text).slice(Number(found[1]));
  return (found[2] === undefined ? rest : rest.slice(0, Number(found[2]))).join("");
}

function split(found: readonly Piece[], raw: string): Field[] {
  let current: Piece[] = [];
  const fields = [current];
  for (const piece of found) {
    const chunks = piece.text.split(piece.kind === "expanded" ? FIELD_BREAKS : BREAK);
    for (const [number, chunk] of chunks.entries()) {
      if (number) {
        current = [];
        fields.push(current);
      }
      if (chunk || piece.kind === "quoted") {
        current.push(replace(piece, { text: chunk }));
      }
    }
  }
  return fields.filter((field) => field.length).map((field) => fieldOfPieces(field, raw));
}

function fieldOfPieces(found: readonly Piece[], raw: string): Field {
  const hasGlob = found.some((piece) => piece.kind !== "quoted" && GLOB.test(piece.text));
  return new Field(bounded(textOf(found)), raw, hasGlob, areSure(found));
}

function braceVariants(found: readonly Piece[]): (readonly Piece[])[] {
  const hasBrace = found.some((piece) => piece.kind === "plain" && piece.text.includes("{"));
  if (!hasBrace || found.length > OPAQUE_MAX) {
    return [found];
  }
  // Braces may span several parts, so expand a template in which every other part is one character.
  const template = found
    .map((piece, number) => (piece.kind === "plain" ? piece.text : String.fromCodePoint(FIRST_OPAQUE + number)))
    .join("");
  const variants = template.split("{").length - 1 <= BRACE_FIELDS_MAX ? expandBraces(template) : [];
  if (!variants.length || variants.length > BRACE_FIELDS_MAX) {
    return [[new Piece(UNSET, "quoted", false)]];
  }
  return variants.map((variant) => fromTemplate(variant, found));
}

function fromTemplate(template: string, found: readonly Piece[]): Piece[] {
  return Array.from(template, (char) => {
    const number = (char.codePointAt(0) ?? 0) - FIRST_OPAQUE;
    return found[number] ?? new Piece(char, "plain");
  });
}

function expandBraces(text: string): string[] {
  for (let start = text.indexOf("{"); start >= 0; start = text.indexOf("{", start + 1)) {
    const [end, commas] = matchingBrace(text, start);
    if (end < 0) {
      continue;
    }
    const inner = text.slice(start + 1, end);
    const found = choices(
      inner,
      commas.map((comma) => comma - start - 1),
    );
    if (!found.length) {
      continue;
    }
    const tails = expandBraces(text.slice(end + 1));
    const heads = found.flatMap((choice) => expandBraces(choice));
    const variants = heads.flatMap((head) => tails.map((tail) => text.slice(0, start) + head + tail));
    return variants.slice(0, BRACE_FIELDS_MAX + 1);
  }
  return [text];
}

function matchingBrace(text: string, start: number): [end: number, commas: number[]] {
  let depth = 0;
  const commas: number[] = [];
  for (let number = start; number < text.length; number += 1) {
    const char = text.charAt(number);
    if (char === "{") {
      depth += 1;
    } else if (char === "}") {
      depth -= 1;
      if (!depth) {
        return [number, commas];
      }
    } else if (char === "," && depth === 1) {
      commas.push(number);
    }
  }
  return [-1, commas];
}

function choices(inner: string, commas: readonly number[]): string[] {
  if (commas.length) {
    const ends = [...commas, inner.length];
    return ends.map((end, number) => inner.slice(number ? (ends[number - 1] ?? 0) + 1 : 0, end));
  }
  const found = SEQUENCE.exec(inner);
  if (!found) {
    return WIDE_SEQUENCE.test(inner) ? Array.from({ length: BRACE_FIELDS_MAX + 1 }, () => "") : [];
  }
  const [, first, last, firstLetter = "", lastLetter = ""] = found;
  const isNumber = first !== undefined;
  const low = isNumber ? Number(first) : firstLetter.charCodeAt(0);
  const high = isNumber ? Number(last) : lastLetter.charCodeAt(0);
  const step = high >= low ? 1 : -1;
  const count = Math.min(Math.abs(high - low) + 1, BRACE_FIELDS_MAX + 1);
  const numbers = Array.from({ length: count }, (_, number) => low + number * step);
  return numbers.map((number) => (isNumber ? String(number) : String.fromCharCode(number)));
}
