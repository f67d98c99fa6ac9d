/** The forms in which a registered secret turns up in other texts. */

/** A secret as it is, and escaped for JSON, HTML and addresses, and hex. */
export function formsOf(secret: string): string[] {
  const data = utf8(secret);
  const hex = data.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [
    secret,
    ...jsonForms(secret),
    ...htmlForms(secret),
    ...KEPT.flatMap((kept) => percent(data, kept)),
    hex,
    hex.toUpperCase(),
  ];
}

/** What base64 makes of a secret at each of three offsets, in both alphabets. */
export function base64FormsOf(secret: string): string[] {
  const data = utf8(secret);
  return [0, 1, 2].flatMap((offset) => base64Inner(data, offset));
}

function jsonForms(secret: string): string[] {
  return [JSON.stringify(secret).slice(1, -1), asciiJson(secret)].flatMap((escaped) => [
    escaped,
    JSON.stringify(escaped).slice(1, -1),
    // Some writers escape the slash, and some what HTML could take for its own.
    escaped.replaceAll("/", "\\/"),
    escaped.replaceAll("&", "\\u0026").replaceAll("<", "\\u003c").replaceAll(">", "\\u003e"),
  ]);
}

function asciiJson(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function htmlForms(secret: string): string[] {
  const escaped = secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return ['"', "&quot;", "&#34;"].flatMap((double) =>
    ["'", "&#x27;", "&#39;", "&apos;"].map((single) => escaped.replaceAll('"', double).replaceAll("'", single)),
  );
}

function percent(data: readonly number[], kept: string): string[] {
  const quoted = data
    .map((byte) => {
      const letter = String.fromCharCode(byte);
      return /[A-Za-z0-9]/.test(letter) || kept.includes(letter) ? letter : `%${byte.toString(16).padStart(2, "0")}`;
    })
    .join("");
  const upper = quoted.replace(/%../g, (escape) => escape.toUpperCase());
  return [quoted, upper].flatMap((form) => [form, form.replaceAll("%20", "+")]);
}

/** Base64 at an offset, without the characters at both ends that also hold bits of the neighbours. */
function base64Inner(data: readonly number[], offset: number): string[] {
  let inner = "";
  let bits = 0;
  let count = 0;
  let skipped = Math.ceil((offset * 8) / 6);
  for (const byte of [...new Array<number>(offset).fill(0), ...data]) {
    bits = ((bits << 8) | byte) & 0xffff;
    for (count += 8; count >= 6; skipped -= 1) {
      count -= 6;
      if (skipped <= 0) inner += BASE64.charAt((bits >> count) & 63);
    }
  }
  return [inner, inner.replaceAll("+", "-").replaceAll("/", "_")];
}

function utf8(text: string): number[] {
  return Array.from(text).flatMap((letter) => {
    const code = letter.codePointAt(0) ?? 0;
    if (code < 0x80) return [code];
    if (code < 0x800) return [0xc0 | (code >> 6), 0x80 | (code & 63)];
    if (code < 0x10000) return [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)];
    return [0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)];
  });
}

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const KEPT = [
  "-._~", // all that RFC 3986 leaves alone
  "-._~/", // a path
  "-._~!'()*", // encodeURIComponent
  "-._~!'()*;/?:@&=+$,#", // encodeURI
  "-._*", // a form
];
