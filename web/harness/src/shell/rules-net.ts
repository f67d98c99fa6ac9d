/** Programs that talk to other machines. */
import { CURL_OPTIONS, SSH_OPTIONS, WGET_OPTIONS } from "../generated/shell-tables.js";
import type { Rule } from "./commands.js";
import { checkArguments, gradeSuffixes } from "./commands.js";
import { readDescribed, readPath, writePath } from "./effects.js";
import type { Arguments, Option } from "./options.js";
import { baseName, isSecretPath } from "./paths.js";
import { startRegex } from "./regex.js";
import type { Call } from "./scene.js";
import { COMPUTED, DECODED, FETCHED, Field, NAMES, SECRET } from "./scene.js";
import { runText } from "./stdin.js";
import { stripStart } from "./text.js";
import { isPublicHost, isPublicUrl } from "./urls.js";

const REMOTE = /^(?:(?:[\p{L}\p{N}_.-]+@)?[\p{L}\p{N}_.[\]:-]+:(?!\\)|rsync:\/\/|[a-z]+:\/\/)/u;
const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
const SSH_RUNS = startRegex(
  "\\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|RemoteCommand|ProxyJump|Include" +
    "|PKCS11Provider|SecurityKeyProvider|ControlPath|ForwardAgent|UserKnownHostsFile|XAuthLocation" +
    "|AuthorizedKeysCommand)",
  "i",
);
const SYNC_DELETES =
  /^(?:--delete|--del(?=\n?$)|--remove-source-files|--remove-sent-files|--force|--write-batch|--inplace)/;
const SYNC_RUNS =
  /^(?:-[A-Za-z]*e|--rsh|--rsync-path|-[A-Za-z]*M|--remote-option|-[A-Za-z]*S(?=\n?$)|-o|-F|--password-file|--daemon)/;
const OUTPUT_OPTIONS: ReadonlySet<string> = new Set(["-o", "--output", "-O", "--remote-name", "--remote-name-all"]);

/** Report what asking this URL means. */
function noteUrl(call: Call, url: Field): void {
  call.note("unknown/network", url.raw);
  if (url.holds(COMPUTED, NAMES, DECODED, FETCHED, SECRET)) call.note("destructive/exfil", url.raw);
  if (!isPublicUrl(url.text)) call.note("read/ssrf", url.raw);
}

/** Fetch URLs; what sends or redirects the connection is dangerous. */
function curl(call: Call): string {
  const args = readDescribed(call, CURL_OPTIONS);
  call.note("unknown/network");
  noteSending(call, args);
  for (const option of args.options) noteCurlOption(call, option);
  for (const operand of args.operands) noteUrl(call, operand);
  if (args.options.some((option) => OUTPUT_OPTIONS.has(option.name))) {
    call.note("safe_write");
    noteFetched(call, args);
  }
  return FETCHED;
}

/** Remember the names of files that hold what was fetched. */
function noteFetched(call: Call, args: Arguments): void {
  const named = args.options.flatMap((option) => (option.sign === ">" && option.value ? [option.value] : []));
  for (const { text } of [...named, ...args.operands]) {
    if (text !== "") call.scene.fetched.add(baseName(text));
  }
}

function noteCurlOption(call: Call, option: Option): void {
  const text = option.value?.text ?? "";
  if ((option.name === "-X" || option.name === "--request") && !SAFE_METHODS.has(text.toUpperCase())) {
    call.note("destructive/exfil", text);
  }
  if (option.name === "--url" && option.value) noteUrl(call, option.value);
  if (text.startsWith("@") || text.includes("%output{")) call.note("destructive/exfil", text);
}

function noteSending(call: Call, args: Arguments): void {
  for (const option of args.options) {
    if (option.sign === "!") call.note("destructive/exfil", option.name);
    if (option.value?.holds(COMPUTED, NAMES, DECODED, SECRET)) call.note("destructive/exfil", option.value.raw);
  }
}

/** Fetch URLs into files. */
function wget(call: Call): string {
  const args = readDescribed(call, WGET_OPTIONS);
  call.note("unknown/network");
  call.note("safe_write");
  noteSending(call, args);
  for (const operand of args.operands) noteUrl(call, operand);
  noteFetched(call, args);
  return FETCHED;
}

/** A command on another machine, or a shell there. */
function ssh(call: Call): string {
  call.note("unknown/network");
  const args = readDescribed(call, SSH_OPTIONS);
  for (const option of args.options) {
    if (option.name === "-o" && option.value && SSH_RUNS.test(option.value.text)) {
      call.note("destructive/tool-exec", option.value.raw);
    }
  }
  if (args.unknown.length > 0) gradeSuffixes(call);
  if (call.scene.stdin !== undefined) call.note("destructive/exfil");
  const host = args.operands[0] ?? new Field("", "");
  const command = args.operands.slice(1);
  if (host.holds(COMPUTED, NAMES, DECODED, SECRET) || host.text.startsWith("-")) {
    call.note("destructive/exfil", host.raw);
  }
  if (command.length === 0) {
    call.note("destructive/shell");
    return FETCHED;
  }
  const inner = call.scene.copy();
  inner.isOutside = true;
  inner.stdin = undefined;
  runText(call, command.map((field) => field.text).join(" "), inner);
  return FETCHED;
}

/** scp and rsync: sending is dangerous, fetching writes. */
function copyRemote(call: Call): string {
  call.note(call.texts.some((text) => REMOTE.test(text)) ? "unknown/network" : "safe_write");
  for (const text of call.texts) {
    if (SYNC_DELETES.test(text)) call.note("destructive/sync", text);
    if (SYNC_RUNS.test(text) && !text.startsWith("--ex")) call.note("destructive/tool-exec", text);
  }
  const paths = call.args.filter((arg) => !arg.text.startsWith("-"));
  const last = paths.pop();
  for (const path of paths) {
    if (!REMOTE.test(path.text)) readPath(call, path);
  }
  if (last && REMOTE.test(last.text)) call.note("destructive/exfil", last.raw);
  else if (last) writePath(call, last);
  checkArguments(call);
  return COMPUTED;
}

/** A raw connection: everything but a port check is dangerous. */
function netcat(call: Call): string {
  const isCheck = call.texts.some((text) => /^-[a-z]*z[a-z]*$/.test(text));
  call.note(isCheck && call.scene.stdin === undefined ? "unknown/network" : "destructive/exfil");
  if (call.texts.some((text) => /^(?:-[a-z]*[ec]|--(?:sh-)?exec)$/.test(text))) call.note("destructive/shell");
  return FETCHED;
}

/** Name look-ups and pings: harmless unless the name carries data. */
function lookup(call: Call): string {
  call.note("unknown/network");
  for (const arg of call.args) {
    if (arg.holds(COMPUTED, NAMES, DECODED, SECRET, FETCHED)) call.note("destructive/exfil", arg.raw);
    if (/^(?:-f|@\/)/.test(arg.text) || isSecretPath(arg)) call.note("destructive/exfil", arg.raw);
  }
  const hosts = call.texts.filter((text) => /^@?[0-9a-fA-Fx.:]+$/.test(text) && /[.:]/.test(text));
  if (hosts.some((host) => !isPublicHost(stripStart(host, "@")))) call.note("unknown/outside");
  return FETCHED;
}

/** httpie and the like: a method or a field sends. */
function httpClient(call: Call): string {
  call.note("unknown/network");
  const words = call.args.filter((arg) => !arg.text.startsWith("-"));
  for (const [number, word] of words.entries()) {
    const sends =
      number === 0
        ? isUpper(word.text) && !SAFE_METHODS.has(word.text)
        : /^[\p{L}\p{N}_-]+(?:=|:=|@|=@|:=@)/u.test(word.text);
    if (sends) call.note("destructive/exfil", word.raw);
    else if (!isUpper(word.text) && !/^[\p{L}\p{N}_-]+:[^/]/u.test(word.text)) noteUrl(call, word);
  }
  if (call.scene.stdin !== undefined) call.note("destructive/exfil");
  return FETCHED;
}

function isUpper(text: string): boolean {
  return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

/** Text browsers fetch and may run helpers. */
function browser(call: Call): string {
  call.note("unknown/network");
  for (const arg of call.args) {
    if (/^(?:[a-z]+:|\/|~)/.test(arg.text)) noteUrl(call, arg);
    else if (/^-(?:editor|cfg|post_data|cmd_script|eval|config)/.test(arg.text)) {
      call.note("destructive/tool-exec", arg.raw);
    }
  }
  return FETCHED;
}

const LOOKUPS = ["ping", "ping6", "dig", "host", "nslookup", "drill", "traceroute", "tracepath", "mtr"];
const HTTP_CLIENTS = ["http", "https", "httpie", "xh", "curlie"];
const BROWSERS = ["lynx", "w3m", "links", "elinks", "aria2c"];

export const NETWORK: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ["curl", curl],
  ["wget", wget],
  ["wget2", wget],
  ["ssh", ssh],
  ["mosh", ssh],
  ["scp", copyRemote],
  ["rsync", copyRemote],
  ["nc", netcat],
  ...LOOKUPS.map((name): [string, Rule] => [name, lookup]),
  ...HTTP_CLIENTS.map((name): [string, Rule] => [name, httpClient]),
  ...BROWSERS.map((name): [string, Rule] => [name, browser]),
]);
