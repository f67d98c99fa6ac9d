/** git: reads are proven by their options, the rest is graded by subcommand. */
import { GIT_CONFIG_HARMLESS, GIT_LOCAL, GIT_NETWORK, GIT_READERS } from "../generated/shell-tables.js";
import { checkArguments, noteSecretSearch } from "./commands.js";
import { applyOperands, readDescribed, readPath } from "./effects.js";
import { gradeFamily } from "./families.js";
import { describe } from "./options.js";
import { baseName, matchesExactly } from "./paths.js";
import { fullRegex, regex } from "./regex.js";
import { replace } from "./replace.js";
import type { Field } from "./scene.js";
import { Call, COMPUTED, FETCHED, fieldOf } from "./scene.js";
import { removeSuffix, splitWords, startsWithAny } from "./text.js";
import { isPublicUrl } from "./urls.js";

const GLOBAL_FLAGS: ReadonlySet<string> = new Set([
  "--no-pager",
  "-P",
  "--no-optional-locks",
  "--literal-pathspecs",
  "--no-replace-objects",
  "--icase-pathspecs",
  "--glob-pathspecs",
  "--no-lazy-fetch",
  "--no-advice",
]);
const SIGNATURE = regex("--(?:format|pretty)=.*%G");
const TEXT_OPTIONS: ReadonlySet<string> = new Set([
  "-m",
  "--message",
  "-am",
  "-F",
  "--author",
  "--date",
  "--grep",
  "-S",
  "-G",
  "--trailer",
  "-n",
  "-u",
  "--format",
  "--pretty",
]);
const MESSAGE_COMMANDS: ReadonlySet<string | undefined> = new Set(["commit", "tag", "merge", "stash", "notes"]);
const FILE_COMMANDS: ReadonlySet<string | undefined> = new Set([
  "add",
  "mv",
  "apply",
  "am",
  "archive",
  "bundle",
  "worktree",
  "init",
]);
const SHARED_FLAGS: ReadonlySet<string> = new Set([
  "--global",
  "--system",
  "--worktree",
  "-e",
  "--edit",
  "--add",
  "--replace-all",
  "--rename-section",
  "--remove-section",
]);
const LISTS = /^(?:-l(?=\n?$)|--list|--contains|--no-contains|--merged|--no-merged|--points-at|-n\p{Nd}*(?=\n?$))/u;
const SECRET_KEY = /cred|token|url|extraheader|password|auth|proxy|http/;
const HARMLESS_KEY = fullRegex(
  "user\\.(?:name|email)|color\\..*|advice\\..*|core\\.(?:autocrlf|quotepath|filemode|ignorecase|eol|abbrev)" +
    "|init\\.defaultbranch|pull\\.(?:rebase|ff)|push\\.default|branch\\..*\\.description|log\\.date|column\\.ui" +
    "|merge\\.conflictstyle|rerere\\.enabled|fetch\\.prune",
  "i",
);

/** Grade a git command. */
export function git(call: Call): string {
  const args = [...call.args];
  let scene = call.scene;
  while (args[0]?.text.startsWith("-")) {
    const option = args[0];
    const value = args[1];
    args.shift();
    if (option.text === "-C" && value) {
      args.shift();
      scene = scene.copy();
      call.engine.runWords([fieldOf("cd"), value], scene);
    } else if (option.text === "-c" && value) {
      args.shift();
      noteConfig(call, value);
    } else if (["--version", "--exec-path", "--html-path"].includes(option.text) && !value) {
      return COMPUTED;
    } else if (!GLOBAL_FLAGS.has(option.text)) {
      call.note("destructive/git-exec", option.raw);
    }
  }
  const [name] = args;
  if (!name) {
    call.note("unknown/option");
    return COMPUTED;
  }
  return subcommand(new Call("git", args, scene, call.engine, call.raw), name.text);
}

function noteConfig(call: Call, setting: Field): void {
  if (!matchesExactly(setting.text.toLowerCase(), GIT_CONFIG_HARMLESS)) call.note("destructive/git-exec", setting.raw);
}

function subcommand(call: Call, name: string): string {
  const both = `${name} ${call.args[1]?.text ?? ""}`;
  const key = GIT_READERS.has(both) ? both : name;
  const description = GIT_READERS.get(key);
  const isDangerous = gradeFamily(call, withoutText(call), true);
  if (description !== undefined && isRead(call, key)) return read(call, key, description);
  if (name === "config") return config(call);
  gradeSource(call);
  if (GIT_NETWORK.has(name)) {
    call.note("unknown/network");
    if (name === "clone") noteCloned(call);
    return FETCHED;
  }
  call.note(GIT_LOCAL.has(name) ? "safe_write" : "unknown/program");
  if (isDangerous || !GIT_LOCAL.has(name)) checkArguments(call);
  return COMPUTED;
}

function noteCloned(call: Call): void {
  for (const text of call.texts.slice(1)) call.scene.fetched.add(removeSuffix(baseName(text), ".git"));
}

/** Some subcommands read or write by their operands. */
function isRead(call: Call, key: string): boolean {
  const texts = call.texts.slice(splitWords(key).length);
  const operands = texts.filter((text) => !text.startsWith("-"));
  switch (key) {
    case "reflog":
      return operands[0] === undefined || /^(?:show|list|HEAD|\p{Nd}+|[^]*\/[^]*)$/u.test(operands[0]);
    case "branch":
    case "tag":
      return texts.some((text) => LISTS.test(text)) || operands.length === 0;
    case "config":
      return isConfigRead(texts, operands);
    case "remote":
      return operands.length === 0;
    case "symbolic-ref":
      return operands.length <= 1;
    case "notes":
    case "stash":
      return operands.length === 0;
    default:
      return true;
  }
}

function isConfigRead(texts: readonly string[], operands: readonly string[]): boolean {
  return (
    texts.some((text) => ["--get", "--get-all", "--list", "-l", "--get-regexp"].includes(text)) ||
    (operands.length === 1 &&
      operands[0]?.includes(".") === true &&
      !texts.some((text) => text.startsWith("--unset"))) ||
    texts[0] === "get" ||
    texts[0] === "list"
  );
}

function read(call: Call, key: string, description: string): string {
  const rest = call.args.slice(splitWords(key).length);
  const inner = new Call(`git ${key}`, rest, call.scene, call.engine, call.raw);
  const args = readDescribed(inner, description);
  // git itself expands the patterns in a path, quoted or not.
  const operands = args.operands
    .filter((operand) => operand.text !== "--")
    .map((operand) => replace<Field>(operand, { isGlob: /[*?[]/.test(operand.text) }));
  let kinds = describe(description).operands;
  if (inner.texts.some((text) => SIGNATURE.test(text))) call.note("unknown/exec");
  if (key === "config") {
    if (inner.texts.some((text) => ["--list", "-l", "list"].includes(text) || SECRET_KEY.test(text))) {
      call.note("read/secret");
    }
    kinds = ["text"];
  }
  const searched = args.options.flatMap(({ name, value }) =>
    (name === "-S" || name === "-G") && value ? [value] : [],
  );
  noteSecretSearch(searched.length > 0 ? inner.withArgs("git grep", searched) : inner);
  if (key === "grep" && args.options.some((option) => option.name === "-e" || option.name === "-f")) kinds = ["path"];
  if (key === "diff" && inner.texts.includes("--no-index")) {
    for (const operand of operands) readPath(inner, operand);
  }
  applyOperands(inner, operands, kinds);
  return COMPUTED;
}

/** Drop what is a message or a pattern: words in it are data. */
function withoutText(call: Call): string[] {
  const kept: string[] = [];
  let skips = false;
  for (const text of call.texts) {
    if (skips) {
      skips = false;
      continue;
    }
    skips = TEXT_OPTIONS.has(text) || (/^-[a-z]*m$/.test(text) && MESSAGE_COMMANDS.has(call.texts[0]));
    kept.push(text);
  }
  return kept;
}

/** Report where clone, fetch and the like get their data from. */
function gradeSource(call: Call): void {
  for (const arg of call.args.slice(1)) {
    const text = arg.text;
    if (/^(?:ext|fd)::/.test(text) || startsWithAny(text, ["-u=", "--upload-pack"])) {
      call.note("destructive/git-exec", arg.raw);
    } else if (/^[a-z][a-z+.-]*:\/\//.test(text) && !isPublicUrl(text)) {
      call.note("read/ssrf", arg.raw);
    } else if (FILE_COMMANDS.has(call.args[0]?.text) && !text.startsWith("-")) {
      readPath(call, arg);
    }
  }
}

function config(call: Call): string {
  const texts = call.texts.slice(1).filter((text) => !text.startsWith("-"));
  const flags = call.texts.filter((text) => text.startsWith("-"));
  const key = texts.find((text) => text.includes(".")) ?? "";
  call.note("safe_write");
  const isShared = flags.some((flag) => SHARED_FLAGS.has(flag));
  const isFile = flags.some((flag) => startsWithAny(flag, ["-f", "--file", "--blob"]));
  const unsets = flags.some((flag) => flag.startsWith("--unset"));
  if (isShared || isFile || !HARMLESS_KEY.test(key) || unsets) call.note("destructive/persist");
  return COMPUTED;
}
