/**
 * Secrets that give themselves away by their shape, in any text.
 *
 * Every pattern is a literal start followed by runs of single characters; no group is repeated. A try either
 * fails within a fixed number of steps or eats what it looked at, so the time is linear in the text. The
 * patterns are those of the Python harness, letter by letter.
 */
import { isSecretKey } from "./redact-keys.js";

/** One match: a name, what lies between, the secret, and both neighbours. */
interface Found {
  readonly name: string;
  readonly between: string;
  readonly secret: string;
  readonly before: string;
  readonly after: string;
}

/**
 * A kind of secret.
 *
 * The pattern has three groups: the name, what lies between, the secret; only the third is masked.
 * A text can match only if it contains, in lower case, one of the seeds.
 */
interface Shape {
  readonly hint: string;
  readonly seeds: readonly string[];
  readonly pattern: string;
  readonly accept: (found: Found) => boolean;
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
  for (const [shape, seeds, pattern] of COMPILED) {
    if (seeds.test(lowered)) masked = mask(masked, shape, pattern);
  }
  return masked;
}

function mask(text: string, shape: Shape, pattern: RegExp): string {
  return text.replace(pattern, (all: string, name: string, between: string, secret: string, start: number) => {
    const end = start + all.length;
    const found = { name, between, secret, before: text.slice(Math.max(0, start - 1), start), after: text.slice(end, end + 1) };
    return shape.accept(found) ? `${name}${between}[redacted${shape.hint}]` : all;
  });
}

function always(): boolean {
  return true;
}

/** A key has a digit or a capital; a long name in kebab or snake case has neither. */
function isRandom(found: Found): boolean {
  return /[0-9A-Z]/.test(found.secret.slice(4));
}

function isAuthorization(found: Found): boolean {
  const words = found.between.trim().split(/[ \t]+/);
  return SCHEMES.has((words.at(-1) ?? "").replace(/^["'\\:=]+/, "").toLowerCase());
}

/** In prose the word after bearer is a plain word: bearer authentication. */
function isBearer(found: Found): boolean {
  return !/^[A-Za-z]?[a-z]{0,18}[.]?$/.test(found.secret);
}

/** Only what decodes to user:password in plain letters is a Basic credential. */
function isBasic(found: Found): boolean {
  const data = found.secret.replace(/=+$/, "");
  if (data.length % 4 === 1) return false;
  const pair: number[] = [];
  let bits = 0;
  for (let index = 0; index < data.length; index += 1) {
    bits = ((bits << 6) | BASE64.indexOf(data.charAt(index))) & 0xffff;
    if (index % 4 > 0) pair.push((bits >> (6 - 2 * (index % 4))) & 0xff);
  }
  return pair.includes(58) && pair.every((byte) => byte >= 32);
}

function isQuotedSecret(found: Found): boolean {
  return isSecretKey(found.name) && !DOTTED_NAME.test(found.secret);
}

/** A literal, not a variable, a call or a type; in an address, any value. */
function isBareSecret(found: Found): boolean {
  if (/^[?&]$/.test(found.before) && found.between === "=") {
    return isSecretKey(found.name) || /(?:sig|signature)$/.test(found.name.toLowerCase());
  }
  return (
    isSecretKey(found.name) &&
    Array.from(found.secret).length >= 6 &&
    !/^[([{]$/.test(found.after) &&
    /[0-9]/.test(found.secret) &&
    /[A-Za-z]/.test(found.secret) &&
    !DOTTED_NAME.test(found.secret)
  );
}

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DOTTED_NAME = /^[A-Za-z_][A-Za-z0-9_]*[.][A-Za-z_][A-Za-z0-9_.]*$/;
const SCHEMES: ReadonlySet<string> = new Set(["bearer", "basic", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"]);
const SECRET_WORDS = ["ken", "k(?<=[a-z0-9_.-]k)ey", "pass", "pw", "cret", "cred"];
const RARER_WORDS = ["zation", "kie", "jwt", "bearer"];
const ASSIGNMENT_SEEDS = [
  "sig=",
  ...[...SECRET_WORDS, ...RARER_WORDS, "gnature"].map(
    (word) => word + String.raw`[a-z0-9_.-]{0,32}\\{0,3}["']?[ \t]{0,4}[:=]`,
  ),
];

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
    seeds: ASSIGNMENT_SEEDS,
    pattern:
      String.raw`(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})` +
      String.raw`(\\{0,3}["']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}\\{0,3}["'])` +
      String.raw`([^ \t\r\n"'\\[$<{][^ \t\r\n"'\\]{5,511})(?=\\{0,3}["'])`,
    accept: isQuotedSecret,
  },
  {
    hint: "",
    seeds: ASSIGNMENT_SEEDS,
    pattern:
      String.raw`(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})` +
      String.raw`(\\{0,3}["']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4})` +
      String.raw`([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)`,
    accept: isBareSecret,
  },
  {
    hint: "",
    seeds: [...SECRET_WORDS, ...RARER_WORDS, "otp"].map((word) => `--(?!-)[a-z0-9_-]{0,24}${word}`),
    pattern:
      String.raw`(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})([ \t]{1,4}\\{0,3}["']?)` +
      String.raw`([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.-][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)`,
    accept: isBareSecret,
  },
];

// The flag u counts characters as Python does.
const SEEDS = new RegExp(SHAPES.flatMap((shape) => shape.seeds).join("|"), "u");
const COMPILED = SHAPES.map(
  (shape) => [shape, new RegExp(shape.seeds.join("|"), "u"), new RegExp(shape.pattern, "gu")] as const,
);
