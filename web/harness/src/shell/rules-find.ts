/** find: it walks folders, and some of its actions delete, write or run. */
import { FIND_TESTS } from "../generated/shell-tables.js";
import { checkText, readPath, writePath } from "./effects.js";
import { fnmatch } from "./fnmatch.js";
import { isSecretPath, SECRET_SAMPLES } from "./paths.js";
import type { Call } from "./scene.js";
import { COMPUTED, Field, fieldOf, NAMES, SECRET } from "./scene.js";
import { startsWithAny } from "./text.js";

const FIND_RUNS: ReadonlySet<string> = new Set(["-exec", "-execdir", "-ok", "-okdir"]);
const FIND_CHOICES: ReadonlySet<string> = new Set(["-o", "-or", ","]);
const FIND_DENIALS: ReadonlySet<string> = new Set(["!", "-not"]);
const FIND_NAMES: ReadonlySet<string> = new Set(["-name", "-iname", "-path", "-ipath", "-wholename"]);

/** Walk folders; some actions delete, write or run. */
export function find(call: Call): string {
  const { texts } = call;
  const start = findRoots(call);
  const tests = findTests(call, start);
  if (tests.hasSecret) {
    const isOutside = texts.slice(0, start).some((text) => startsWithAny(text, ["/", "~", ".."]));
    call.note(tests.runs || isOutside ? "read/secret" : "unknown/search");
  }
  if (tests.runs && !isFiltered(texts)) call.note("unknown/dynamic");
  return tests.hasSecret ? SECRET : COMPUTED;
}

/** Read the folders to walk; return where the tests begin. */
function findRoots(call: Call): number {
  const options = call.texts.findIndex((text) => !/^(?:-[HLP]|-O\p{Nd}|-D)$/u.test(text));
  let position = options < 0 ? call.args.length : options;
  for (const root of call.args.slice(position)) {
    if (startsWithAny(root.text, ["-", "(", "!", ","])) break;
    readPath(call, root);
    if (root.isGlob && /^[*?[]/.test(root.text)) call.note("unknown/dynamic", "a file name may be read as an option");
    position += 1;
  }
  return position;
}

function findTests(call: Call, start: number): { hasSecret: boolean; runs: boolean } {
  const { args, texts } = call;
  let position = start;
  let hasSecret = false;
  let runs = false;
  for (let name = texts[position]; name !== undefined; name = texts[position]) {
    position += 1;
    if (FIND_RUNS.has(name)) {
      position = findExec(call, position);
      runs = true;
      continue;
    }
    const sign = FIND_TESTS.get(name);
    const value = sign && "=@>".includes(sign) ? args[position] : undefined;
    hasSecret = hasSecret || (value !== undefined && FIND_NAMES.has(name) && findsSecrets(value));
    findTest(call, name, sign, value);
    position += value ? 1 : 0;
  }
  return { hasSecret, runs };
}

/** Say whether a name is asked for that no file of credentials has. */
function isFiltered(texts: readonly string[]): boolean {
  const isDenied = (number: number): boolean => FIND_DENIALS.has(texts[number - 1] ?? "");
  if (texts.some((text, number) => FIND_CHOICES.has(text) || (text === "(" && isDenied(number)))) return false;
  const patterns = texts.filter((_, number) => FIND_NAMES.has(texts[number - 1] ?? "") && !isDenied(number - 1));
  return patterns.length > 0 && !patterns.some(matchesSecret);
}

/** Unlike the shell's, the patterns of find match a leading dot too. */
function matchesSecret(pattern: string): boolean {
  return SECRET_SAMPLES.some((sample) => fnmatch(`./${sample}`, `*${pattern.toLowerCase()}`));
}

function findsSecrets(pattern: Field): boolean {
  return isSecretPath(pattern) || isSecretPath(fieldOf(pattern.text.replace(/\*+$/, "")));
}

function findTest(call: Call, name: string, sign: string | undefined, value: Field | undefined): void {
  if (sign === undefined) call.note("unknown/option", name);
  else if (sign === "!") call.note("destructive", name);
  else if (value && sign === "@") readPath(call, value);
  else if (value && sign === ">") {
    writePath(call, value);
    call.note("destructive/tool-exec", name);
  } else if (value) checkText(call, value);
}

function findExec(call: Call, position: number): number {
  const rest = call.texts.slice(position);
  const found = rest.findIndex((text) => text === ";" || text === "+");
  const texts = rest.slice(0, found < 0 ? rest.length : found);
  const words = texts.map((text) => new Field(text.replaceAll("{}", `./${NAMES}`), text));
  if (words[0]) {
    if (words[0].holds(NAMES)) call.note("destructive/tool-exec", words[0].raw);
    const inner = call.scene.copy();
    inner.stdin = undefined;
    call.engine.runWords(words, inner);
  }
  return position + texts.length + 1;
}
