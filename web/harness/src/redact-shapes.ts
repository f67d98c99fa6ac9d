/**
 * Secrets that give themselves away by their shape, in any text.
 *
 * Every pattern is a literal start followed by runs of single characters; no group is repeated. A try either
 * fails within a fixed number of steps or eats what it looked at, so the time is linear in the text. The
 * patterns are those of the Python harness, letter by letter.
 */
import {
  always,
  isAuthorization,
  isBareSecret,
  isBasic,
  isBearer,
  isLogin,
  isQuotedSecret,
  isRandom,
  isUser,
  mayNameSecret,
  type Found,
} from "./redact-checks.js";

/**
 * A kind of secret.
 *
 * The pattern has three groups: the name, what lies between, the secret; only the third is masked. If it
 * is named, the first group is any name and the third is looked at only after the name of a secret.
 * A text can match only if it contains, in lower case, one of the seeds.
 */
interface Shape {
  readonly hint: string;
  readonly seeds: readonly string[];
  readonly pattern: string;
  readonly accept: (found: Found) => boolean;
  readonly isNamed?: boolean;
}

/** Say quickly whether `maskShapes` could change the text: a wrong yes costs time, there is no wrong no. */
export function mayHoldSecret(text: string): boolean {
  return SEEDS.test(text.toLowerCase());
}

/** Replace everything that has the shape of a secret. */
export function maskShapes(text: string): string {
  const lowered = text.toLowerCase();
  if (!SEEDS.test(lowered)) return text;
  let masked = text;
  for (const [shape, seeds, find] of COMPILED) {
    if (seeds.test(lowered)) masked = mask(masked, shape, find);
  }
  return masked;
}

/** Replace what was found. */
function mask(text: string, shape: Shape, find: Finder): string {
  let masked = "";
  let at = 0;
  for (const [start, end] of find(text, shape)) {
    masked += `${text.slice(at, start)}[redacted${shape.hint}]`;
    at = end;
  }
  return masked + text.slice(at);
}

function finder(pattern: RegExp): Finder {
  return function* find(text, shape) {
    for (const match of text.matchAll(pattern)) {
      const [all, name = "", between = "", secret = ""] = match;
      const start = match.index;
      const end = start + all.length;
      // What comes before the secret is in the first two groups, and what comes after it is only looked at.
      const first = start + name.length + between.length;
      const found = { name, between, secret, before: charBefore(text, start), after: text.slice(end, end + 1) };
      if (shape.accept(found)) yield [first, first + secret.length];
    }
  };
}

/**
 * Look for a value only after a secret's name.
 *
 * Else the value of another name would hide what it holds, as in `error: token=x`.
 */
function namedFinder(head: RegExp, value: RegExp): Finder {
  return function* find(text, shape) {
    let at = 0;
    for (const named of text.matchAll(head)) {
      const [all, name = "", between = ""] = named;
      const before = charBefore(text, named.index);
      if (named.index < at || !mayNameSecret(name, before)) continue;
      const first = named.index + all.length;
      value.lastIndex = first;
      const secret = value.exec(text)?.[1];
      if (secret === undefined) continue;
      at = first + secret.length;
      if (shape.accept({ name, between, secret, before, after: text.slice(at, at + 1) })) yield [first, at];
    }
  };
}

function charBefore(text: string, place: number): string {
  return text.slice(Math.max(0, place - 1), place);
}

function finderOf(shape: Shape): Finder {
  const { pattern } = shape;
  if (!shape.isNamed) return finder(new RegExp(pattern, "gu"));
  const cut = pattern.lastIndexOf("([^"); // the third group
  return namedFinder(new RegExp(pattern.slice(0, cut), "gu"), new RegExp(pattern.slice(cut), "uy"));
}

type Finder = (text: string, shape: Shape) => Iterable<readonly [start: number, end: number]>;

const SECRET_WORDS = ["ken", "k(?<=[a-z0-9_.-]k)ey", "pass", "pw", "cret", "cred", "connectionstr", "connstr"];
const RARER_WORDS = ["zation", "kie", "jwt", "bearer", "uth(?!or)"];
const ASSIGNMENT_SEEDS = [
  "sig=",
  ...[...SECRET_WORDS, ...RARER_WORDS, "gnature"].map(
    (word) => word + String.raw`[a-z0-9_.-]{0,32}\\{0,3}["']?[ \t]{0,4}[:=]`,
  ),
];

const LOGIN_SEEDS = ["-u", "-user"].map((option) => option + String.raw`[ \t\n=]{1,4}[^ \t\r\n:]{1,132}:`);

const SHAPES: readonly Shape[] = [
  {
    hint: ":private_key",
    seeds: ["private key"],
    pattern:
      String.raw`()()(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,12}?[A-Za-z0-9+/=:,-]{8})` +
      String.raw`[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?![\s\S])))`,
    accept: always,
  },
  {
    hint: ":jwt",
    seeds: ["yj[a-z0-9_-]{8}"],
    pattern: String.raw`(?<![A-Za-z0-9_-])()()(eyJ[A-Za-z0-9_-]{8,}[.][A-Za-z0-9_-]*[.][A-Za-z0-9_.-]*)`,
    accept: always,
  },
  {
    hint: ":authorization",
    seeds: [String.raw`zation\\{0,3}["']?[ \t]{0,4}[:=]`],
    pattern:
      "([Aa]uthorization|AUTHORIZATION)" +
      String.raw`(\\{0,3}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}["']?[A-Za-z][A-Za-z0-9-]{2,20}[ \t]{1,4})` +
      String.raw`([^ \t\r\n"'\\<>{}$[(][^\r\n"'\\<>{}$[(]*)`,
    accept: isAuthorization,
  },
  {
    hint: ":cookie",
    seeds: [String.raw`kie\\{0,3}["']?[ \t]{0,4}:`],
    pattern:
      String.raw`([Cc]ookie|COOKIE)(\\{0,3}["']?[ \t]{0,4}:[ \t]{0,4}\\{0,3}["']?)` +
      String.raw`([A-Za-z0-9_.-]{1,64}=[^\r\n"'\\]+)`,
    accept: always,
  },
  {
    hint: ":token",
    seeds: [
      ...["k-[a-z0-9_-]{20}", "k_live_", "k_test_", "k_[a-z0-9]{30}", "gh[pousr]_[a-z0-9]{20}"],
      ...["pat[_-][a-z0-9_-]{20}", "gl[a-z]{2,4}-[a-z0-9_-]{20}", "xox[a-z]-", "xapp-"],
      ...["xai-[a-z0-9_-]{20}", "pplx-", "vapi-", "vly-", "pm_[a-z0-9]{30}", "pypi-[a-z0-9_-]{50}"],
      ...["f_[a-z0-9]{30}", "za[a-z0-9_-]{35}", "ya29[.]", "gocspx-", "g[.][a-z0-9_-]{16}", "xffgf0", "whsec_"],
      ...["v1_[a-z0-9_-]{20}", "pi_[a-z0-9_-]{20}", "bp_[a-z0-9_-]{20}", "8_[a-z0-9_-]{20}"],
      ...["v[sb][.][a-z0-9_-]{20}", "pi[a-f0-9]{32}", ":aa[a-z0-9_-]{33}"],
    ],
    pattern:
      "(?<![A-Za-z0-9])()()(sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{30,}" +
      "|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}" +
      "|gl(?:pat|dt|rt|ft|ptt|cbt|soat|imt)-[A-Za-z0-9_-]{20,}" +
      "|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}|(?:xai|pplx|nvapi|tvly)-[A-Za-z0-9_-]{20,}" +
      "|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,}" +
      "|AIza[A-Za-z0-9_-]{35,}|ya29[.][A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}" +
      "|SG[.][A-Za-z0-9_-]{16,}[.][A-Za-z0-9_-]{16,}|ATATT3xFfGF0[A-Za-z0-9_=-]{20,}" +
      "|(?:dop_v1|dckr_pat|shpat|lin_api|sbp|r8)_[A-Za-z0-9_-]{20,}|whsec_[A-Za-z0-9+/=]{20,}" +
      "|hv[sb][.][A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32,}|[0-9]{8,10}:AA[A-Za-z0-9_-]{33,})",
    accept: isRandom,
  },
  {
    hint: ":aws_key",
    seeds: ["kia[a-z0-9]{16}", "sia[a-z0-9]{16}"],
    // The neighbours keep base64 data, where any four letters turn up, from matching.
    pattern: "(?<![A-Za-z0-9+/=])()()(A[KS]IA[A-Z0-9]{16})(?![A-Za-z0-9+/=])",
    accept: always,
  },
  {
    hint: ":webhook",
    seeds: ["com/services/", "com/api/webhooks/"],
    pattern: "()(hooks[.]slack[.]com/services/|discord(?:app)?[.]com/api/webhooks/)([A-Za-z0-9_/-]{8,})",
    accept: always,
  },
  {
    hint: ":bearer",
    seeds: [String.raw`bearer[ \t]`],
    pattern: String.raw`(?<![\s\S])([Bb]earer|BEARER)([ \t]{1,4})([^ \t\r\n[]+)(?![\s\S])`,
    accept: always,
  },
  {
    hint: ":bearer",
    seeds: [String.raw`bearer[ \t]`],
    pattern: String.raw`(?<![A-Za-z0-9_])([Bb]earer|BEARER)([ \t]{1,4})([A-Za-z0-9._~+/=-]{8,})`,
    accept: isBearer,
  },
  {
    hint: ":basic",
    seeds: [String.raw`basic[ \t]{1,4}[a-z0-9+/]{8}`],
    pattern: String.raw`(?<![A-Za-z0-9_])([Bb]asic|BASIC)([ \t]{1,4})([A-Za-z0-9+/]{8,1000}={0,2})`,
    accept: isBasic,
  },
  {
    hint: "",
    seeds: [String.raw`://[^ \t\r\n"'<>/?#@:]{0,128}:[^ \t\r\n"'<>/?#]{1,256}@`],
    pattern: String.raw`()(://)([^ \t\r\n"'<>/?#@:]{0,128}:[^ \t\r\n"'<>/?#]{1,256})(?=@)`,
    accept: always,
  },
  {
    hint: "",
    seeds: [String.raw`://[^ \t\r\n"'<>/?#@:]{1,256}@`],
    pattern:
      "([Hh]ttps?|HTTPS?|[Ww]ss?|WSS?)(://)" +
      String.raw`([^ \t\r\n"'<>/?#@:[{$%,;()][^ \t\r\n"'<>/?#@:,;()]{0,255})(?=@)`,
    accept: isUser,
  },
  {
    hint: "",
    seeds: LOGIN_SEEDS,
    pattern:
      String.raw`(?<![A-Za-z0-9_-])(-u|--user|--proxy-user)((?:=|[ \t]{1,4})\\{0,3}["'])` +
      String.raw`([^ \t\r\n"'\\:$<{([][^ \t\r\n"'\\:]{0,127}:[^\r\n"'\\]{0,255})(?=\\{0,3}["'])`,
    accept: isLogin,
  },
  {
    hint: "",
    seeds: LOGIN_SEEDS,
    pattern:
      String.raw`(?<![A-Za-z0-9_-])(-u|--user|--proxy-user)(=|[ \t]{1,4})` +
      String.raw`([^ \t\r\n"'\\:$<{([][^ \t\r\n"'\\:]{0,127}:[^ \t\r\n"'\\;&|<>()\x60]{0,255})`,
    accept: isLogin,
  },
  {
    hint: "",
    seeds: ASSIGNMENT_SEEDS,
    pattern:
      String.raw`(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})` +
      String.raw`(\\{0,3}["']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}\\{0,3}["'])` +
      String.raw`([^ \t\r\n"'\\[$<{][^\r\n"'\\]{0,511})(?=\\{0,3}["'])`,
    accept: isQuotedSecret,
    isNamed: true,
  },
  {
    hint: "",
    seeds: ASSIGNMENT_SEEDS,
    pattern:
      String.raw`(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})` +
      String.raw`(\\{0,3}["']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4})` +
      String.raw`([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)`,
    accept: isBareSecret,
    isNamed: true,
  },
  {
    hint: "",
    seeds: [`--(?!-)[a-z0-9_-]{0,24}(?:${[...SECRET_WORDS, ...RARER_WORDS, "otp"].join("|")})`],
    pattern:
      String.raw`(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})([ \t]{1,4}\\{0,3}["']?)` +
      String.raw`([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.-][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)`,
    accept: isBareSecret,
    isNamed: true,
  },
];

// The flag u counts characters as Python does.
const SEEDS = new RegExp(SHAPES.flatMap((shape) => shape.seeds).join("|"), "u");
const COMPILED = SHAPES.map((shape) => [shape, new RegExp(shape.seeds.join("|"), "u"), finderOf(shape)] as const);
