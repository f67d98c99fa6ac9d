/** The walk over a program: every command node is graded, wherever it hides. */
import { CALLS_DEEP_MAX, LOOP_ITEMS_MAX, SHELLS } from "../generated/shell-tables.js";
import { evaluateName, evaluateNumber, gradeSetting } from "./arithmetic.js";
import { gradeCall } from "./commands.js";
import { gradeDynamic } from "./dynamic.js";
import { readPath, writePath } from "./effects.js";
import { expandJoined, expandWord } from "./expand.js";
import type { Finding } from "./grade-parts.js";
import {
  blur,
  feed,
  firstBody,
  firstWord,
  neverFails,
  parametersOf,
  parsed,
  placed,
  severityOf,
  textsOf,
  truncates,
} from "./grade-parts.js";
import { ASSIGNMENT, readText, Source } from "./lexer.js";
import { parseList, parseProgram } from "./parser.js";
import { baseName } from "./paths.js";
import { regex } from "./regex.js";
import { RULES } from "./rules.js";
import type { Engine, Scene } from "./scene.js";
import { Call, COMPUTED, FETCHED, Field, fieldOf, UNKNOWNS, UNSET } from "./scene.js";
import { setVariable } from "./settings.js";
import { after, partition, splitWords, startsWithAny, strip, stripStart } from "./text.js";
import type { Budget, Compound, Pipeline, Redirect, Script } from "./tree.js";
import { Arithmetic, ArrayLiteral, Simple, TooMuchWork, Word } from "./tree.js";

const SEPARATORS = /[;&|\n(){}`]+|\$\(/;
const QUOTES = /['"\\]/g;
const EXPANSION = /`|\$[({[A-Za-z_0-9@*]/;
const COUNTER = regex("\\b([A-Za-z_][A-Za-z0-9_]*)\\s*=(?!=)", "g");
const NUMBER_TESTS: ReadonlySet<string> = new Set(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"]);
const SCAN_WORDS_MAX = 4;

/** Walks one program and collects findings; it is the `Engine` of the rules. */
export class Grader implements Engine {
  readonly simpleCommands: string[] = [];

  constructor(
    private readonly budget: Budget,
    readonly findings: Finding[] = [],
  ) {}

  /** Report a finding; the category decides how bad it is. */
  note(category: string, part: string): void {
    if (!this.findings.some((found) => found[0] === category && found[1] === part)) {
      this.findings.push([category, part]);
    }
  }

  /** Use up work. */
  spend(units = 1): void {
    this.budget.spend(units);
  }

  /** Grade text that a shell will run. */
  runCode(text: string, scene: Scene): string {
    const script = parsed(() => parseProgram(text, this.budget, scene.depth + 1));
    if (script === undefined) {
      this.note("unknown/parse", text);
      this.scan(text, scene);
      return COMPUTED;
    }
    scene.depth += 1;
    const output = this.runScript(script, scene);
    scene.depth -= 1;
    return output;
  }

  /** Look for dangerous commands in text that is not a program. */
  scan(text: string, scene: Scene): void {
    for (const segment of text.split(SEPARATORS)) {
      const words = splitWords(segment.replace(QUOTES, "")).map(fieldOf);
      for (let start = 0; start < Math.min(words.length, SCAN_WORDS_MAX); start += 1) {
        if (this.isDangerous(words.slice(start), scene)) {
          this.note("destructive", strip(segment));
          break;
        }
      }
    }
  }

  /** Grade a parsed program; return what it may print. */
  runScript(script: Script, scene: Scene): string {
    let output = "";
    const startDepth = scene.folderDepth;
    let settled: ReadonlyMap<string, readonly Field[]> | undefined;
    for (const item of script.items) {
      const target = item.operator === "&" ? scene.copy() : scene;
      output += this.runPipeline(item.pipeline, target);
      // What follows `&&` or `||` may not have run.
      if (settled === undefined) settled = new Map(scene.values);
      else if (item.operator !== "&&") blur(settled, scene);
      if (item.operator !== "&&" && item.operator !== "||") settled = undefined;
      if (item.operator !== "&&") scene.folderDepth = Math.min(scene.folderDepth, startDepth);
    }
    return output;
  }

  private runPipeline(pipeline: Pipeline, scene: Scene): string {
    const [first, ...others] = pipeline.commands;
    if (first && others.length === 0) return this.runCommand(first, scene);
    let stdin = scene.stdin;
    for (const command of pipeline.commands) {
      const stage = scene.copy();
      stage.stdin = stdin;
      stdin = this.runCommand(command, stage);
    }
    return stdin ?? "";
  }

  private runCommand(command: Simple | Compound, scene: Scene): string {
    this.spend();
    if (command instanceof Simple) return this.runSimple(command, scene);
    if (command.kind === "function") {
      this.define(command, scene);
      return "";
    }
    const outer = scene.stdin;
    const prints = this.redirect(command.redirects, scene, command.raw);
    const inner = command.kind === "subshell" || command.kind === "coproc" ? scene.copy() : scene;
    const output = this.runCompound(command, inner);
    scene.stdin = outer;
    return prints ? output : "";
  }

  /** Remember a function; its use of its arguments is graded when it is called. */
  private define(command: Compound, scene: Scene): void {
    scene.functions.set(command.name, command);
    const trial = this.trial();
    const inner = scene.copy();
    inner.calls = [...scene.calls, command.name];
    trial.runScript(firstBody(command), inner);
    this.simpleCommands.push(...trial.simpleCommands);
    for (const [category, part] of trial.findings) {
      if (severityOf(category) === "dangerous") this.note(category, part);
    }
  }

  private runCompound(command: Compound, scene: Scene): string {
    switch (command.kind) {
      case "for":
        return this.runFor(command, scene);
      case "arithmetic":
        this.arithmetic(new Arithmetic(firstWord(command).parts), scene);
        return "";
      case "condition":
        this.runCondition(command, scene);
        return "";
      case "if":
      case "case":
      case "loop":
        for (const word of command.words) expandJoined(word, scene, this);
        return this.runBranches(command, scene);
      default:
        return this.runScript(firstBody(command), scene);
    }
  }

  private runBranches(command: Compound, scene: Scene): string {
    let output = "";
    const isLoop = command.kind === "loop";
    if (isLoop && neverFails(firstBody(command))) this.note("unknown/endless", command.raw);
    // What one pass of a loop sets, the next one may run.
    for (const body of isLoop ? [...command.bodies, ...command.bodies] : command.bodies) {
      const before = new Map(scene.values);
      output += this.runScript(body, scene);
      blur(before, scene);
    }
    return output;
  }

  private runFor(command: Compound, scene: Scene): string {
    const body = firstBody(command);
    if (!command.name) {
      this.arithmetic(new Arithmetic(firstWord(command).parts), scene);
      for (const found of partition(command.raw, "))")[0].matchAll(COUNTER))
        scene.assign(found[1] ?? "", [fieldOf("0")]);
      return this.runScript(body, scene);
    }
    let output = "";
    const call = new Call(command.name, [], scene, this, command.raw);
    for (const item of this.loopItems(command, scene)) {
      setVariable(call, command.name, [item]);
      output += this.runScript(body, scene);
    }
    return output;
  }

  private loopItems(command: Compound, scene: Scene): readonly Field[] {
    const items: Field[] = [];
    for (const word of command.words) {
      if (word.parts.length === 0) {
        items.push(...(scene.positional?.length ? scene.positional : [new Field(UNSET, word.raw, false, false)]));
      }
      items.push(...expandWord(word, scene, this));
    }
    if (items.length > LOOP_ITEMS_MAX) {
      return [...items.slice(0, LOOP_ITEMS_MAX), new Field(COMPUTED, command.raw, false, false)];
    }
    return items.length === 1 && !items[0]?.isKnown ? [...items, ...items] : items;
  }

  private runCondition(command: Compound, scene: Scene): void {
    const texts = command.words.map((word) => {
      const fields = expandWord(word, scene, this);
      for (const found of fields) this.evaluateText(found.text, scene);
      return [...fields.map((found) => found.text), ...parametersOf(word.parts)].join(" ");
    });
    for (const [number, text] of texts.entries()) {
      if (NUMBER_TESTS.has(text)) {
        evaluateNumber(texts[number - 1] ?? "", scene, this);
        evaluateNumber(texts[number + 1] ?? "", scene, this);
      } else if (text === "-v") {
        evaluateName(texts[number + 1] ?? "", scene, this);
      }
    }
  }

  private runSimple(command: Simple, scene: Scene): string {
    const fields = command.words.flatMap((word) => expandWord(word, scene, this));
    const outer = scene.stdin;
    const prints = this.redirect(command.redirects, scene, command.raw, command.words.length === 0);
    const [head] = fields;
    const [word] = command.words;
    if (!head || !word) {
      this.assignAll(command.assigns, scene, false);
      // `$(<file)` prints the file.
      const printed = command.redirects.length > 0 && command.assigns.length === 0 ? scene.stdin : "";
      scene.stdin = outer;
      return printed ?? "";
    }
    this.simpleCommands.push(textsOf(fields));
    if (word.raw !== head.text && !head.holds(...UNKNOWNS)) this.note("unknown/quoting", word.raw);
    this.assignAll(command.assigns, scene, true);
    const output = this.runWords(fields, scene);
    if (output.includes(FETCHED) && !prints) {
      for (const redirect of command.redirects) scene.fetched.add(baseName(redirect.target.raw));
    }
    scene.stdin = outer;
    return prints ? output : "";
  }

  private assignAll(assigns: readonly Word[], scene: Scene, isPrefix: boolean): void {
    for (const word of assigns) {
      const name = this.assign(word, scene);
      if (isPrefix) gradeSetting(new Call(name, [], scene, this, word.raw), name, true);
    }
  }

  private assign(word: Word, scene: Scene): string {
    const head = ASSIGNMENT.exec(word.raw)?.[0] ?? word.raw;
    const variable = partition(partition(head, "[")[0], "=")[0].replace(/\+$/, "");
    const joined = expandJoined(word, scene, this);
    const last = word.parts.at(-1);
    const isArray = last instanceof ArrayLiteral;
    const hasSubscript = head.includes("[");
    let value = isArray
      ? last.words.flatMap((inner) => expandWord(inner, scene, this))
      : [new Field(after(joined.text, head), word.raw, false, joined.isSure)];
    const all = [...(scene.values.get(variable) ?? []), ...value];
    const isJoined = head.endsWith("+=") && !isArray && !hasSubscript;
    if (isJoined) value = [new Field(all.map((field) => field.text).join(""), word.raw)];
    else if (head.endsWith("+=") || hasSubscript) value = all;
    if (hasSubscript || value.some((field) => field.text.startsWith("["))) value = placed(head, value, scene, this);
    setVariable(new Call(variable, [], scene, this, word.raw), variable, value);
    return variable;
  }

  /** Grade redirections and set the input; say whether output still flows on. */
  private redirect(redirects: readonly Redirect[], scene: Scene, raw: string, isEmpty = false): boolean {
    let prints = true;
    for (const redirect of redirects) {
      const call = new Call("redirect", [], scene, this, raw);
      if (redirect.descriptor.startsWith("{")) gradeSetting(call, redirect.descriptor.slice(1, -1), false);
      if (redirect.body !== undefined) {
        feed(scene, redirect, expandJoined(redirect.body, scene, this).text);
        continue;
      }
      const { operator } = redirect;
      const target = expandJoined(redirect.target, scene, this);
      if (operator === "<<<") {
        feed(scene, redirect, target.text + "\n");
      } else if (["<&", ">&"].includes(operator) && /^(?:[0-9]+-?|-)$/.test(target.text)) {
        continue;
      } else if (["<", "<&"].includes(operator)) {
        readPath(call, target);
        feed(scene, redirect, target.text === "/dev/null" ? "" : (scene.pipes.get(target.text) ?? COMPUTED));
      } else {
        writePath(call, target, truncates(operator, raw, isEmpty));
        prints = prints && !["", "1"].includes(redirect.descriptor);
      }
    }
    return prints;
  }

  /** Grade a command given as its words; return what it may print. */
  runWords(fields: readonly Field[], scene: Scene): string {
    this.spend(2 + fields.length);
    if (scene.callsDeep >= CALLS_DEEP_MAX) throw new TooMuchWork();
    scene.callsDeep += 1;
    const output = this.runFields(fields, scene);
    scene.callsDeep -= 1;
    return output;
  }

  private runFields(fields: readonly Field[], scene: Scene): string {
    const [head, ...args] = fields;
    if (!head) throw new RangeError("a command needs a word");
    const raw = textsOf(fields);
    if (args.length > 0 && head.isSure && ASSIGNMENT.test(head.text)) {
      const name = partition(head.text, "=")[0];
      gradeSetting(new Call(name, [], scene, this, head.raw), name, true);
      return this.runWords(args, scene);
    }
    if (startsWithAny(head.text, ["!", ":!"]) && head.text.length > 1) return this.runEscape(head, args, scene);
    if (!head.isKnown) return gradeDynamic(new Call(head.text, args, scene, this, raw), head);
    const alias = scene.aliases.get(head.text);
    if (alias !== undefined && scene.expandsAliases) this.runCode(`${alias} ${textsOf(args)}`, scene);
    const command = scene.functions.get(head.text);
    if (command) {
      this.noteShadowed(new Call(head.text, args, scene, this, raw));
      return this.runFunction(command, args, scene);
    }
    return gradeCall(new Call(head.text, args, scene, this, raw), RULES);
  }

  /** `!cmd` is history to a shell, and a command to many interactive programs. */
  private runEscape(head: Field, args: readonly Field[], scene: Scene): string {
    this.note("unknown/history", head.raw);
    const words = [fieldOf(stripStart(head.text, ":!")), ...args].filter((word) => word.text !== "");
    const isProgram = words.length > 1 || words.some((word) => word.text.includes("/") || SHELLS.has(word.text));
    if (isProgram && this.isDangerous(words, scene)) this.note("destructive/shell", head.raw);
    return COMPUTED;
  }

  /** A function may not have been defined, or may be gone: what its name means otherwise counts. */
  private noteShadowed(call: Call): void {
    const trial = this.trial();
    const inner = call.scene.copy();
    inner.isTrial = true;
    gradeCall(new Call(call.name, call.args, inner, trial, call.raw), RULES);
    for (const [category, part] of trial.findings) {
      if (category !== "unknown/program") this.note(category, part);
    }
  }

  private runFunction(command: Compound, args: readonly Field[], scene: Scene): string {
    if (scene.calls.includes(command.name)) {
      this.note("destructive/process", command.raw);
      return COMPUTED;
    }
    const inner = scene.copy();
    inner.positional = args;
    inner.calls = [...scene.calls, command.name];
    const output = this.runScript(firstBody(command), inner);
    scene.values = inner.values;
    scene.functions = inner.functions;
    scene.aliases = inner.aliases;
    scene.folder = inner.folder;
    scene.folderDepth = Math.min(scene.folderDepth, inner.folderDepth);
    scene.isOutside = scene.isOutside || inner.isOutside;
    return output;
  }

  /** Say whether these words, as a command, are dangerous; reports nothing. */
  isDangerous(fields: readonly Field[], scene: Scene): boolean {
    const trial = this.trial();
    const inner = scene.copy();
    inner.isTrial = true;
    trial.runWords(fields, inner);
    return trial.foundDanger();
  }

  /** Say whether this text, as a program, is dangerous; reports nothing. */
  isDangerousCode(text: string, scene: Scene): boolean {
    const trial = this.trial();
    trial.runCode(text, scene.copy());
    return trial.foundDanger();
  }

  private trial(): Grader {
    return new Grader(this.budget);
  }

  /** Say whether any finding is dangerous. */
  foundDanger(): boolean {
    return this.findings.some(([category]) => severityOf(category) === "dangerous");
  }

  /** Grade what an arithmetic expression runs. */
  arithmetic(expression: Arithmetic, scene: Scene): void {
    const { text } = expandJoined(new Word(expression.parts, ""), scene, this);
    evaluateNumber([text, ...parametersOf(expression.parts)].join(" "), scene, this);
  }

  /** Grade the expansions of text that is expanded a second time. */
  evaluateText(text: string, scene: Scene): void {
    if (!EXPANSION.test(text)) return;
    this.note("unknown/dynamic", text);
    const word = parsed(() => readText(new Source(text, this.budget, parseList, 0, scene.depth)));
    if (word === undefined) this.scan(text, scene);
    else expandJoined(word, scene.copy(), this);
  }
}
