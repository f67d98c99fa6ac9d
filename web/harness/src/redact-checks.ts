/** What has the shape of a secret, and is one; or is prose or code after all. */
import { isSecretKey } from "./redact-keys.js";

/** One match: a name, what lies between, the secret, and both neighbours. */
export interface Found {
  readonly name: string;
  readonly between: string;
  readonly secret: string;
  readonly before: string;
  readonly after: string;
}

export function always(): boolean {
  return true;
}

/** A key has a digit or a capital; a long name in kebab or snake case has neither. */
export function isRandom(found: Found): boolean {
  return /[0-9A-Z]/.test(found.secret.slice(4));
}

/** A scheme that is known, or one that is followed by what no prose has. */
export function isAuthorization(found: Found): boolean {
  const words = found.between.trim().split(/[ \t]+/);
  const scheme = (words.at(-1) ?? "").replace(/^["'\\:=]+/, "").toLowerCase();
  if (SCHEMES.has(scheme)) return true;
  const [word = ""] = found.secret.split(/[ \t]/);
  return (
    found.between.includes(":") && !/[0-9]/.test(scheme) && Array.from(word).length >= VALUE_CHARS_MIN && isMixed(word)
  );
}

/** In prose the word after bearer is a plain word: bearer authentication. */
export function isBearer(found: Found): boolean {
  return !/^[A-Za-z]?[a-z]{0,18}[.]?$/.test(found.secret);
}

/** Only what decodes to user:password in plain letters is a Basic credential. */
export function isBasic(found: Found): boolean {
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

/** Whoever calls with a user and no password mostly has a token for a user. */
export function isUser(found: Found): boolean {
  return found.secret.toLowerCase() !== "git";
}

/** Tell user:password from uid:gid, host:path, an address and variables. */
export function isLoginText(text: string): boolean {
  const colon = text.indexOf(":");
  if (colon < 0 || text.includes("[redacted") || /^[/${<%]/.test(text.slice(colon + 1))) return false;
  const user = text.slice(0, colon);
  const password = text.slice(colon + 1);
  if (password === "") return Array.from(user).length >= TOKEN_CHARS_MIN;
  return user !== "" && user !== password && !/^[0-9]+$/.test(user + password);
}

export function isLogin(found: Found): boolean {
  return isLoginText(found.secret);
}

/** Under the quoted name of JSON any text is a value, in code only a longer one. */
export function isQuotedSecret(found: Found): boolean {
  if (!isSecretKey(found.name) || MASKED.test(found.secret)) return false;
  if (/^\\{0,3}["']/.test(found.between)) return true;
  return Array.from(found.secret).length >= VALUE_CHARS_MIN && !DOTTED_NAME.test(found.secret);
}

/** Say whether a name can stand before a secret; a signature only in an address. */
export function mayNameSecret(name: string, before: string): boolean {
  return isSecretKey(name) || (/^[?&]$/.test(before) && /(?:sig|signature)$/.test(name.toLowerCase()));
}

/** A literal, not a variable, a call or a type; in an address, any value. */
export function isBareSecret(found: Found): boolean {
  if (/^[?&]$/.test(found.before) && found.between === "=") return true;
  return (
    isSecretKey(found.name) &&
    Array.from(found.secret).length >= VALUE_CHARS_MIN &&
    !/^[([{]$/.test(found.after) &&
    !DOTTED_NAME.test(found.secret) &&
    (isMixed(found.secret) || isPassword(found))
  );
}

/** A password may be a plain word; `f(password=word)` is code, though. */
function isPassword(found: Found): boolean {
  return (
    found.between === "=" &&
    found.before !== "(" &&
    found.after !== ")" &&
    PASSWORD_NAME.test(found.name.toLowerCase()) &&
    !PLACEHOLDERS.has(found.secret.toLowerCase()) &&
    !isSecretKey(found.secret)
  );
}

function isMixed(text: string): boolean {
  return /[0-9]/.test(text) && /[A-Za-z]/.test(text);
}

const VALUE_CHARS_MIN = 6;
const TOKEN_CHARS_MIN = 12;
const MASKED = /^[A-Za-z][A-Za-z0-9-]*[ \t]{1,4}\[redacted[:a-z_]*\]$/; // and its scheme
const PASSWORD_NAME = /(?:pass|password|passwd|passphrase|passcode|pwd|pw|secret)[0-9]{0,3}$/;
const PLACEHOLDERS: ReadonlySet<string> = new Set([
  ...["string", "boolean", "required", "optional", "undefined", "hidden", "default", "option", "prompt"],
]);
const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DOTTED_NAME = /^[A-Za-z_][A-Za-z0-9_]*[.][A-Za-z_][A-Za-z0-9_.]*$/;
const SCHEMES: ReadonlySet<string> = new Set([
  "bearer",
  "basic",
  "token",
  "digest",
  "negotiate",
  "apikey",
  "aws4-hmac-sha256",
]);
