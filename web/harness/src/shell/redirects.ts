/** Redirections, and the here-documents that they announce. */
import { matchAt, readText, readWord, skipBlank, Source } from "./lexer.js";
import { Redirect, ShellSyntaxError, Text, Word } from "./tree.js";

// Sticky patterns: each is matched at the cursor only.
const REDIRECT = /([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-?|<>|<&|>&|>>|>\||<(?!\()|>(?!\())/y;
const REDIRECT_BOTH = /&>>?/y;

/** Read one redirection if there is one at the cursor. */
export function takeRedirect(source: Source, redirects: Redirect[]): boolean {
  const found = matchAt(REDIRECT, source.text, source.pos);
  const operator = found ? (found[2] ?? "") : source.take(REDIRECT_BOTH);
  if (found) {
    source.pos += found[0].length;
  }
  if (!operator) {
    return false;
  }
  skipBlank(source);
  const target = readWord(source);
  const redirect = new Redirect(operator, found?.[1] ?? "", target);
  redirects.push(redirect);
  if (operator === "<<" || operator === "<<-") {
    if (target.parts.some((part) => !(part instanceof Text))) {
      throw new ShellSyntaxError("a here-document ends at a plain word");
    }
    source.heredocs.push([redirect, operator === "<<-"]);
  }
  return true;
}

/** Give each here-document that was announced on this line its body. */
export function readHeredocs(source: Source): void {
  const pending = source.heredocs;
  source.heredocs = [];
  for (const [redirect, stripsTabs] of pending) {
    const parts = redirect.target.parts;
    const quoted = parts.some((part) => !(part instanceof Text) || part.quoted);
    const end = parts.map((part) => (part instanceof Text ? part.text : "")).join("");
    redirect.body = heredocWord(source, heredocText(source, end, quoted, stripsTabs), quoted);
  }
}

function heredocText(source: Source, end: string, quoted: boolean, stripsTabs: boolean): string {
  const lines: string[] = [];
  for (;;) {
    const line = heredocLine(source, quoted, stripsTabs);
    if (line === end) {
      return lines.join("");
    }
    if (source.pos >= source.text.length) {
      throw new ShellSyntaxError("a here-document has no end");
    }
    lines.push(line + "\n");
  }
}

/** Take one line; unless the end is quoted, a backslash joins it with the next one first. */
function heredocLine(source: Source, quoted: boolean, stripsTabs: boolean): string {
  let line = "";
  for (;;) {
    const stop = source.text.indexOf("\n", source.pos);
    line += source.text.slice(source.pos, stop >= 0 ? stop : source.text.length);
    source.pos = stop >= 0 ? stop + 1 : source.text.length;
    const isJoined = !quoted && stop >= 0 && (/\\*$/.exec(line)?.[0].length ?? 0) % 2 === 1;
    if (!isJoined) {
      return stripsTabs ? line.replace(/^\t+/, "") : line;
    }
    line = line.slice(0, -1);
  }
}

function heredocWord(source: Source, text: string, quoted: boolean): Word {
  if (quoted) {
    return new Word([new Text(text, true)], text);
  }
  return readText(new Source(text, source.budget, source.parse, 0, source.depth));
}
