/**
 * Keep secrets out of everything that is written or shown.
 *
 * Three nets, one over the other: the names of keys (`redact-keys`), the shapes of values (`redact-shapes`),
 * and the exact values that the host registered, in every encoding they are likely to turn up in.
 */
import { isLoginText } from "./redact-checks.js";
import { isSecretKey } from "./redact-keys.js";
import { MASK, Registered } from "./redact-registered.js";
import { maskShapes, mayHoldSecret } from "./redact-shapes.js";
import { MaskedStream } from "./redact-stream.js";

export { MASK, type MaskedStream };
export const TOO_DEEP = "[truncated:depth]";
export const CYCLE = "[cycle]";

export const SECRET_CHARS_MIN = 8; // a shorter one would turn up in ordinary text by chance
export const SECRET_CHARS_MAX = 16_384;
export const SECRETS_MAX = 1_000;
export const DEPTH_MAX = 64;

type Entries = Readonly<Record<string, unknown>>;

/** What to mask in a value because of the names above it; `values`: it only describes a secret. */
type Hide = "nothing" | "values" | "all";

/**
 * Masks secrets by key name, by shape, and the registered ones by value.
 *
 * Make one from the secrets and keep it: registering is dear, masking is not. A registered secret is masked
 * plain, escaped for JSON and HTML, URL-encoded, in hex, and in base64 at any offset and over any lines; one
 * of digits also in a number.
 * Throws a RangeError if a secret is not a text, too short or too long, or if there are too many of them;
 * and if `secrets` is itself a text or a record, whose parts are not what was meant.
 */
export class Redactor {
  readonly #known: Registered;
  readonly #hasDigits: boolean;
  readonly #longNumbers: ReadonlySet<number>;

  constructor(secrets: Iterable<string> = []) {
    const registered = registeredOf(secrets);
    if (registered.length > SECRETS_MAX) {
      throw new RangeError(`too many secrets to register: ${registered.length}, limit ${SECRETS_MAX}`);
    }
    for (const [index, secret] of registered.entries()) {
      const { length } = Array.from(secret);
      if (length < SECRET_CHARS_MIN || length > SECRET_CHARS_MAX) {
        throw new RangeError(
          `secret number ${index} has ${length} characters; ` +
            `register secrets of ${SECRET_CHARS_MIN} to ${SECRET_CHARS_MAX} characters`,
        );
      }
    }
    this.#known = new Registered(registered);
    this.#hasDigits = registered.some((secret) => /^[0-9]+$/.test(secret));
    this.#longNumbers = new Set(registered.filter((secret) => LONG_NUMBER.test(secret)).map(Number));
  }

  /** Mask the secrets in a text. */
  text(text: string): string {
    return maskShapes(this.#known.mask(text));
  }

  /** Return a masker for one text that comes in pieces. */
  stream(): MaskedStream {
    return new MaskedStream(this.#known);
  }

  /** Say whether a registered secret of digits is in a number as it is written. */
  isSecretNumber(value: number | bigint): boolean {
    if (!this.#hasDigits) return false;
    return this.#longNumbers.has(Math.abs(Number(value))) || this.#known.spans(numberText(value)).length > 0;
  }

  /**
   * Mask the secrets in a JSON value; return the same object if there are none.
   *
   * The value itself is never changed. Under a secret's name every string and number is masked, however
   * deep; null, true and false stay. Keys are masked like any text. What lies deeper than `DEPTH_MAX` or
   * inside itself becomes a marker, and so does anything that is not JSON: what cannot be looked into is
   * not shown. In a list, what follows an option with a secret's name is masked: ["login", "--password", "x"].
   */
  value(value: unknown): unknown {
    return this.#isClean(value) ? value : new Walk(this).value(value, 0, "nothing");
  }

  /** Say quickly that there is nothing to mask; every record pays for this. */
  #isClean(value: unknown): boolean {
    const texts: string[] = [];
    let level: readonly unknown[] = [value];
    for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
      const below = open(level, texts, (number) => this.isSecretNumber(number));
      if (below === undefined) return false;
      if (below.length === 0) {
        const text = texts.join("\n");
        return !mayHoldSecret(text) && this.#known.spans(text).length === 0;
      }
      // A value that holds itself twice doubles with every level; one look at it is enough.
      level = below.length < SHARING_MIN ? below : [...new Set(below)];
    }
    return false;
  }
}

const UNREGISTERED = new Redactor();

/** Mask secrets by key name and by shape; see `Redactor.value`. */
export function sanitizeForTrace(value: unknown): unknown {
  return UNREGISTERED.value(value);
}

/** Mask everything in a text that has the shape of a secret. */
export function maskText(text: string): string {
  return UNREGISTERED.text(text);
}

/** One slow walk through a value that may hold secrets. */
class Walk {
  readonly #redactor: Redactor;
  readonly #path = new Set<object>();
  readonly #done = new Map<object, Map<string, unknown>>();

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  value(value: unknown, depth: number, hide: Hide): unknown {
    switch (typeof value) {
      case "undefined":
      case "boolean":
        return value;
      case "string":
        return hide === "all" ? hideText(value) : this.#redactor.text(value);
      case "number":
      case "bigint":
        return hide === "all" || this.#redactor.isSecretNumber(value) ? MASK : value;
      default:
        if (isList(value) || isEntries(value)) return this.#container(value, depth, hide);
        return value === null ? value : `[opaque:${kindOf(value)}]`;
    }
  }

  #container(value: readonly unknown[] | Entries, depth: number, hide: Hide): unknown {
    if (depth >= DEPTH_MAX) return TOO_DEEP;
    if (this.#path.has(value)) return CYCLE;
    // A value that is shared all over costs one walk for each depth, not one for each path to it.
    const done = this.#done.get(value) ?? new Map<string, unknown>();
    const place = `${depth} ${hide}`;
    if (done.has(place)) return done.get(place);
    this.#path.add(value);
    const masked = isList(value) ? this.#list(value, depth + 1, hide) : this.#entries(value, depth + 1, hide);
    this.#path.delete(value);
    this.#done.set(value, done.set(place, masked));
    return masked;
  }

  #list(value: readonly unknown[], depth: number, hide: Hide): unknown {
    const masked = value.map((item, index) =>
      this.#argument(item, depth, follows(value[index - 1], item) ? "all" : hide),
    );
    return masked.every((item, index) => Object.is(item, value[index])) ? value : masked;
  }

  /** Mask an item of a list, in which `--password=x` may be an option. */
  #argument(item: unknown, depth: number, hide: Hide): unknown {
    const match = typeof item === "string" && hide !== "all" ? OPTION_VALUE.exec(item) : null;
    const [, name = "", secret] = match ?? [];
    if (!isSecretKey(name)) return this.value(item, depth, hide);
    return secret === MASK ? item : `${name}=${MASK}`;
  }

  #entries(value: Entries, depth: number, given: Hide): unknown {
    const hide = given === "nothing" && namesASecret(value) ? "values" : given;
    const masked = new Map<string, unknown>();
    let isSame = true;
    for (const [key, item] of Object.entries(value)) {
      const newKey = this.#key(key, masked);
      const newItem = this.value(item, depth, hideBelow(key, item, hide));
      isSame &&= newKey === key && Object.is(newItem, item);
      masked.set(newKey, newItem);
    }
    return isSame ? value : Object.fromEntries(masked);
  }

  #key(key: string, taken: ReadonlyMap<string, unknown>): string {
    const masked = this.#redactor.text(key);
    if (!taken.has(masked)) return masked;
    // Two secrets must not become one key, or one of the two values is lost.
    let number = 2;
    while (taken.has(`${masked} ${number}`)) number += 1;
    return `${masked} ${number}`;
  }
}

/** Return the secrets, each once; no message may show one of them. */
function registeredOf(secrets: unknown): readonly string[] {
  if (typeof secrets === "string") {
    throw new RangeError("Redactor takes a list of secrets, found a single text: write new Redactor([secret])");
  }
  if (!isIterable(secrets) || secrets instanceof Map) {
    throw new RangeError(
      "Redactor takes a list of secrets, found a record or a single value: give it the values in a list",
    );
  }
  const registered = new Set<string>();
  for (const [index, secret] of [...secrets].entries()) {
    if (typeof secret !== "string") {
      throw new RangeError(
        `secret number ${index} is not a text but of type ${kindOf(secret)}; ` +
          "decode it, or leave it out if it is not set",
      );
    }
    registered.add(secret);
  }
  return [...registered];
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

/** Say whether an item of a list is the value of a secret option before it. */
function follows(option: unknown, item: unknown): boolean {
  if (typeof option === "string" && LOGIN_OPTIONS.has(option)) return typeof item === "string" && isLoginText(item);
  if (typeof option !== "string" || !option.startsWith("--") || isList(item) || isEntries(item)) return false;
  const isOption = typeof item === "string" && item.startsWith("-");
  return !isOption && OPTION.test(option) && isSecretKey(option);
}

function hideText(text: string): string {
  return text === "" ? text : MASK;
}

function hideBelow(key: string, item: unknown, hide: Hide): Hide {
  if (hide === "all" || (hide === "values" && VALUE_KEYS.has(key))) return "all";
  if (!isSecretKey(key)) return "nothing";
  return isEntries(item) && describes(key, item) ? "values" : "all";
}

/** Tell the JSON Schema of a secret, or how to authorise, from a bundle of secrets. */
function describes(key: string, item: Entries): boolean {
  return SCHEMA_KEYS.some((name) => Object.hasOwn(item, name)) || isSchemaType(item["type"]) || key === "authorization";
}

/** A type of JSON Schema is a name, or a list of names. */
function isSchemaType(type: unknown): boolean {
  const names = isList(type) ? type : [type];
  return names.length > 0 && names.every((name) => typeof name === "string" && SCHEMA_TYPES.has(name));
}

/** Recognise an entry of a list of headers or variables: {name: API_KEY, value: …}. */
function namesASecret(value: Entries): boolean {
  const name = Object.hasOwn(value, "name") ? value["name"] : value["key"];
  return Object.hasOwn(value, "value") && typeof name === "string" && isSecretKey(name);
}

/** Collect the texts of one level and return the level below; undefined if it needs the slow walk. */
function open(
  level: readonly unknown[],
  texts: string[],
  isSecretNumber: (value: number | bigint) => boolean,
): unknown[] | undefined {
  const below: unknown[] = [];
  for (const item of level) {
    if (typeof item === "string") {
      texts.push(item);
    } else if (isList(item)) {
      for (const part of item) below.push(part);
    } else if (isEntries(item)) {
      if (Object.keys(item).some(isSecretKey) || namesASecret(item)) return undefined;
      for (const [key, part] of Object.entries(item)) {
        texts.push(key);
        below.push(part);
      }
    } else if (isNumber(item) ? isSecretNumber(item) : !isConstant(item)) {
      return undefined;
    }
  }
  return below;
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

function isConstant(value: unknown): boolean {
  return value === null || value === undefined || typeof value === "boolean";
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function isEntries(value: unknown): value is Entries {
  return kindOf(value) === "Object";
}

function kindOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** A number as JSON has it; every language writes the whole ones alike. */
function numberText(value: number | bigint): string {
  return Number.isInteger(value) ? BigInt(value).toString() : String(value);
}

const OPTION = /^--[A-Za-z][A-Za-z0-9_-]{1,40}$/;
const OPTION_VALUE = /^(--[A-Za-z][A-Za-z0-9_-]{1,40})=([^]+)$/;
const LOGIN_OPTIONS: ReadonlySet<string> = new Set(["-u", "--user", "--proxy-user"]);
// Not every language reads these exactly, so they are compared as the floats that they become.
const LONG_NUMBER = /^[1-9][0-9]{15,298}$/;
const SHARING_MIN = 1_000;
const VALUE_KEYS: ReadonlySet<string> = new Set(["value", "default", "const", "example", "examples"]);
const SCHEMA_KEYS = ["$ref", "anyOf", "oneOf", "allOf", "enum"];
const SCHEMA_TYPES: ReadonlySet<string> = new Set([
  "string",
  "number",
  "integer",
  "boolean",
  "object",
  "array",
  "null",
]);
