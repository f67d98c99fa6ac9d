/** Backslash escapes of quoted text, `echo -e` and `printf`. */
const ANSI = /\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))/gsu;
const ECHO = /\\(?:x([0-9A-Fa-f]{1,2})|(0[0-7]{0,3}|[0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))/gsu;
const ANSI_LETTERS = new Map([
  ["a", "\x07"],
  ["b", "\b"],
  ["e", "\x1b"],
  ["E", "\x1b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
]);
const UNICODE_MAX = 0x10ffff;
const BYTE_BITS = 0xff;

/** Resolve the backslash escapes of `$'…'` and `printf`, or of `echo -e` and `%b`. */
export function decodeEscapes(text: string, isEcho = false): string {
  return text.replace(isEcho ? ECHO : ANSI, decodeEscape);
}

function decodeEscape(_: string, ...groups: (string | undefined)[]): string {
  const [hexadecimal, octal, short, long, control, letter] = groups;
  if (letter !== undefined) {
    return ANSI_LETTERS.get(letter) ?? letter;
  }
  if (control !== undefined) {
    return String.fromCodePoint((control.codePointAt(0) ?? 0) & 31);
  }
  const code = octal ? parseInt(octal, 8) & BYTE_BITS : parseInt(hexadecimal ?? short ?? long ?? "", 16);
  return code <= UNICODE_MAX ? String.fromCodePoint(code) : "\ufffd";
}
