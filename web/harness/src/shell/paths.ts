/** What a path means: inside the tree, outside, secret, device, start-up file. */
import {
  DATA_FILES,
  ENDLESS_DEVICES,
  HARMLESS_DEVICES,
  NETWORK_DEVICES,
  POLICY_FOLDERS,
  PUBLIC_FILES,
  SCRATCH_FOLDERS,
  SECRET_FILES,
  SECRET_FOLDERS,
  SECRET_PATHS,
  STARTUP_FILES,
  STARTUP_PATHS,
} from "../generated/shell-tables.js";
import { fnmatchAny } from "./fnmatch.js";
import { escapeRegex, fullRegex, regex, startRegex } from "./regex.js";
import type { Scene } from "./scene.js";
import { Field, NAMES, UNKNOWNS } from "./scene.js";
import { partition, startsWithAny } from "./text.js";

export type PathKind = "inside" | "outside" | "harmless" | "device" | "network" | "unknown";

const DRIVE = startRegex(String.raw`(?:[A-Za-z]:[\\/]|\\\\|%[A-Za-z]+%|\$env:)`);
const PROCESS_SECRETS = regex(
  String.raw`/proc/(?:[^/]+/)*(?:environ|mem|maps|auxv|kcore|fd/\d+|root|cwd)(?:/|$)|/proc/kcore`,
);
const DESCRIPTOR = fullRegex(String.raw`/dev/fd/\d+`);
const GLOB_CHARS = /[*?[\]!^]/;
const HIDDEN_SAMPLES = [".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh", ".aws", ".bash_history"];
const PLAIN_SAMPLES = ["id_rsa", "id_ed25519", "credentials", "secrets", "shadow"];
/** Names that a pattern for files of credentials would match. */
export const SECRET_SAMPLES: readonly string[] = [...HIDDEN_SAMPLES, ...PLAIN_SAMPLES];
const GLOB_EVIDENCE_CHARS_MIN = 3;
const GLOB_PREFIX_CHARS_MIN = 2;

// The lists come from the tables alone, so there are only so many.
const compiled = new Map<string, RegExp>();

/** Say whether a name matches a pattern (`*` is anything), whatever its case. */
export function matchesAny(name: string, patterns: readonly string[]): boolean {
  return wildcards(patterns, "is").test(name);
}

/** Say whether a name matches a pattern (`*` is anything), case and all. */
export function matchesExactly(name: string, patterns: readonly string[]): boolean {
  return wildcards(patterns, "s").test(name);
}

function wildcards(patterns: readonly string[], flags: string): RegExp {
  const key = `${flags} ${patterns.join("\n")}`;
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const choices = patterns.map((pattern) => escapeRegex(pattern).replaceAll("\\*", ".*"));
  const made = fullRegex(choices.join("|"), flags);
  compiled.set(key, made);
  return made;
}

/** Return the segments of a path; `.` is dropped and `..` resolved if possible. */
export function splitPath(path: string): string[] {
  const segments: string[] = [];
  for (const segment of path.replaceAll("\\", "/").split("/")) {
    if (segment === ".." && segments.length > 0 && !["..", "~"].includes(segments.at(-1) ?? "")) {
      segments.pop();
    } else if (segment !== "" && segment !== ".") {
      segments.push(segment);
    }
  }
  return segments;
}

/** Return the last segment of a path or URL. */
export function baseName(path: string): string {
  let name = partition(path, "?")[0];
  while (name.endsWith("/")) name = name.slice(0, -1);
  return name.slice(name.lastIndexOf("/") + 1);
}

/** Say whether this program fetched the file, or the folder it lies in. */
export function isFetchedPath(path: string, scene: Scene): boolean {
  return splitPath(`${scene.folder}/${path}`).some((segment) => scene.fetched.has(segment));
}

/** Return a relative path with the folder it is taken from in front. */
export function placed(field: Field, scene: Scene): Field {
  if (scene.folder === "" || startsWithAny(field.text, ["/", "~", "-"])) return field;
  return new Field(`${scene.folder}/${field.text}`, field.raw, field.isGlob, field.isSure);
}

/** Say where a path leads. */
export function kindOfPath(field: Field, scene: Scene): PathKind {
  const path = field.text;
  if (path === "-") return "harmless";
  if (startsWithAny(path, NETWORK_DEVICES)) return "network";
  if (startsWithAny(path, ["/", "~"]) || DRIVE.test(path)) return kindOfAbsolute(path);
  if (!field.isSure || UNKNOWNS.some((mark) => mark !== NAMES && path.includes(mark))) return "unknown";
  if (scene.isOutside) return "outside";
  const ups = splitPath(path).filter((segment) => segment === "..").length;
  return ups > scene.folderDepth || (field.isGlob && path.includes("..")) ? "outside" : "inside";
}

function kindOfAbsolute(path: string): PathKind {
  const clean = "/" + splitPath(path).join("/");
  if (HARMLESS_DEVICES.has(clean) || DESCRIPTOR.test(clean)) return "harmless";
  if (ENDLESS_DEVICES.has(clean)) return "outside";
  if (clean.startsWith("/dev/") && !startsWithAny(clean, SCRATCH_FOLDERS)) return "device";
  return "outside";
}

/** Say whether a path names a file or folder of credentials. */
export function isSecretPath(field: Field): boolean {
  const path = field.text;
  const segments = splitPath(path);
  if (PROCESS_SECRETS.test(path.startsWith("/") ? "/" + segments.join("/") : path)) return true;
  const name = segments.at(-1);
  if (name === undefined) return false;
  if (field.isGlob && globMayBeSecret(segments)) return true;
  if (hasPath(segments, SECRET_PATHS) || hasFolder(segments, SECRET_FOLDERS)) {
    return !matchesAny(name, PUBLIC_FILES);
  }
  return matchesAny(name, SECRET_FILES) && !matchesAny(name, PUBLIC_FILES);
}

function hasFolder(segments: readonly string[], folders: readonly string[]): boolean {
  return segments.some((segment) => folders.includes(segment));
}

function hasPath(segments: readonly string[], paths: readonly string[]): boolean {
  const joined = `/${segments.join("/")}/`;
  return paths.some((path) => joined.includes(`/${path}/`));
}

function globMayBeSecret(segments: readonly string[]): boolean {
  for (const segment of segments) {
    if (!GLOB_CHARS.test(segment)) continue;
    const evidence = segment.replace(/[^A-Za-z0-9]/g, "").length;
    const prefix = Array.from(segment.split(GLOB_CHARS)[0] ?? "").length;
    const samples = startsWithAny(segment, [".", "[.", "?"]) ? [...HIDDEN_SAMPLES] : [];
    if (evidence >= GLOB_EVIDENCE_CHARS_MIN || prefix >= GLOB_PREFIX_CHARS_MIN) {
      samples.push(...PLAIN_SAMPLES);
    }
    if (fnmatchAny(samples, segment)) return true;
  }
  return false;
}

/** Say whether writing here makes something run, or be trusted, later. */
export function isStartupPath(field: Field): boolean {
  const segments = splitPath(field.text);
  const name = segments.at(-1);
  return name !== undefined && (hasPath(segments, STARTUP_PATHS) || matchesAny(name, STARTUP_FILES));
}

/** Say whether a path is this runtime's own policy, journal or approvals. */
export function isPolicyPath(field: Field): boolean {
  return hasFolder(splitPath(field.text), POLICY_FOLDERS);
}

/** Say whether a file looks like data that no build can make again. */
export function isDataPath(field: Field): boolean {
  return matchesAny(field.text.slice(field.text.lastIndexOf("/") + 1), DATA_FILES);
}

/** Say whether a path lies in a folder where anybody can put a file. */
export function isScratchPath(path: string): boolean {
  return startsWithAny(path, SCRATCH_FOLDERS);
}
