/** Markdown written by a model. It is not trusted: it can format text, and nothing else. */
import {
  Children,
  isValidElement,
  memo,
  useMemo,
  type ComponentPropsWithoutRef,
  type CSSProperties,
  type ReactNode,
} from "react";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import remarkGfm from "remark-gfm";
import { undisguised } from "./format.js";
import { useWording } from "./labels.js";
import { CodeView } from "./primitives.js";
import { classes, FOCUS } from "./styles.js";

/** The elements that may be rendered. HTML of the model is dropped, and none of these can run or fetch anything. */
const ELEMENTS = [
  "a",
  "blockquote",
  "br",
  "code",
  "del",
  "em",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "hr",
  "img",
  "input",
  "li",
  "ol",
  "p",
  "pre",
  "strong",
  "sup",
  "section",
  "table",
  "tbody",
  "td",
  "th",
  "thead",
  "tr",
  "ul",
] as const;
const ADDRESS = /^(?:https?:\/\/|mailto:)/iu;
const REMARK: Options["remarkPlugins"] = [[remarkGfm, { singleTilde: false }], keepBreaks];

/** An address that a link may have; undefined if it may not be one. */
export function safeAddress(address: string): string | undefined {
  if (!ADDRESS.test(address)) return undefined;
  try {
    const { protocol, href } = new URL(address);
    return protocol === "http:" || protocol === "https:" || protocol === "mailto:" ? href : undefined;
  } catch {
    return undefined;
  }
}

const HOSTS = /(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}|\d{1,3}(?:\.\d{1,3}){3}/gu;
/** Characters without a look of their own that may stand in a name, and dots that look like a dot. */
const JOINERS = /\p{Default_Ignorable_Code_Point}/gu;
const DOTS = /[。·]/gu;

/**
 * The host that a link really leads to, if its text may hide that; undefined if it does not.
 *
 * Its text has the name of another host, the host has letters that look like others, or a name stands before an @. Of
 * a mail address it is the whole address.
 */
export function hostToShow(address: string, text: string): string | undefined {
  const { host, username, protocol, pathname } = new URL(address);
  const isMail = protocol === "mailto:";
  const own = bare(isMail ? pathname.slice(pathname.lastIndexOf("@") + 1) : host);
  const hosts = text.normalize("NFKC").replace(JOINERS, "").replace(DOTS, ".").match(HOSTS) ?? [];
  const isOther = hosts.some((host) => bare(host) !== own);
  return isOther || username !== "" || own.includes("xn--") ? (isMail ? pathname : host) : undefined;
}

function bare(host: string): string {
  return host
    .toLowerCase()
    .replace(/^www\./u, "")
    .replace(/:\d+$/u, "");
}

function Link({ href = "", children }: ComponentPropsWithoutRef<"a">): ReactNode {
  const { leadsTo } = useWording().labels.markdown;
  const address = safeAddress(href);
  if (address === undefined) return <span>{children}</span>;
  const host = hostToShow(address, textOf(children));
  return (
    <>
      <a
        href={address}
        target="_blank"
        rel="noopener noreferrer nofollow"
        className={classes("text-agent-link underline", FOCUS)}
      >
        {children}
      </a>
      {host !== undefined && <span className="text-agent-warning"> {leadsTo(host)}</span>}
    </>
  );
}

/** An image would be fetched from somewhere, and tell that it was. It is shown as its words. */
function Image({ alt }: ComponentPropsWithoutRef<"img">): ReactNode {
  return <span className="text-agent-muted">{useWording().labels.markdown.image(undisguised(alt ?? ""))}</span>;
}

/** A task of a list. */
function Check({ checked }: ComponentPropsWithoutRef<"input">): ReactNode {
  const { done, toDo } = useWording().labels.markdown;
  const isDone = checked === true;
  return <input type="checkbox" checked={isDone} readOnly disabled aria-label={isDone ? done : toDo} />;
}

function Table({ children }: { readonly children?: ReactNode }): ReactNode {
  const { table } = useWording().labels.markdown;
  return (
    <div className={classes("my-2 overflow-x-auto", FOCUS)} tabIndex={0} role="group" aria-label={table}>
      <table className="border-collapse text-sm">{children}</table>
    </div>
  );
}

const heading = (size: string) =>
  function Heading({ children }: { readonly children?: ReactNode }): ReactNode {
    // A heading of the model is none of the page.
    return <p className={classes("mt-3 mb-1 font-semibold", size)}>{children}</p>;
  };

/** How the cells of a column are aligned, as a class: styles in the page are refused. */
function alignOf(style: CSSProperties | undefined): string {
  if (style?.textAlign === "right") return "text-right";
  return style?.textAlign === "center" ? "text-center" : "text-left";
}

const COMPONENTS: Components = {
  a: Link,
  img: Image,
  pre: ({ children }) => <CodeBlock>{children}</CodeBlock>,
  code: ({ children, className }) => (
    <code className={classes("rounded bg-agent-code px-1 font-mono text-[0.9em]", className)}>{children}</code>
  ),
  input: ({ checked }) => <Check checked={checked} />,
  p: ({ children }) => <p className="my-2 first:mt-0 last:mb-0">{children}</p>,
  ul: ({ children }) => <ul className="my-2 list-disc pl-6">{children}</ul>,
  ol: ({ children, start }) => (
    <ol className="my-2 list-decimal pl-6" start={start}>
      {children}
    </ol>
  ),
  blockquote: ({ children }) => (
    <blockquote className="my-2 border-l-4 border-agent-border pl-3 text-agent-muted">{children}</blockquote>
  ),
  table: ({ children }) => <Table>{children}</Table>,
  th: ({ children, style }) => (
    <th className={classes("border border-agent-border px-2 py-1 font-semibold", alignOf(style))}>{children}</th>
  ),
  td: ({ children, style }) => (
    <td className={classes("border border-agent-border px-2 py-1", alignOf(style))}>{children}</td>
  ),
  // Footnotes come with ids, which would be there once for each message.
  li: ({ children }) => <li>{children}</li>,
  section: ({ children }) => <div className="mt-2 border-t border-agent-border text-xs">{children}</div>,
  hr: () => <hr className="my-3 border-agent-border" />,
  h1: heading("text-lg"),
  h2: heading("text-base"),
  h3: heading("text-sm"),
  h4: heading("text-sm"),
  h5: heading("text-sm"),
  h6: heading("text-sm"),
};

/**
 * Text that takes too long to read as Markdown: the time grows with the square of its marks or worse, and its elements
 * stand inside each other until the browser gives up. It is shown as it is written.
 */
const MARKS = /[*_~`![\]<&]/gu;
const MARKS_MAX = 4_000;
const MARKS_ALL_MAX = 12_000;
const CELLS_MAX = 10_000;
const CHARS_MAX = 200_000;
const NESTED = /^(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])){33}/mu;

/** Whether a text is too costly to read as Markdown. */
function isHeavy(text: string, marksMax = MARKS_MAX): boolean {
  const count = (find: RegExp): number => text.match(find)?.length ?? 0;
  return text.length > CHARS_MAX || NESTED.test(text) || count(MARKS) > marksMax || count(/\|/gu) > CELLS_MAX;
}

function Plain({ text }: { readonly text: string }): ReactNode {
  return <p className="whitespace-pre-wrap">{undisguised(text)}</p>;
}

const Part = memo(function Part({ text }: { readonly text: string }): ReactNode {
  const { footnotes } = useWording().labels.markdown;
  if (isHeavy(text)) return <Plain text={text} />;
  return (
    <ReactMarkdown
      remarkPlugins={REMARK}
      remarkRehypeOptions={{ footnoteLabel: footnotes }}
      skipHtml
      allowedElements={ELEMENTS}
      unwrapDisallowed
      urlTransform={(address) => safeAddress(address) ?? ""}
      components={COMPONENTS}
    >
      {text}
    </ReactMarkdown>
  );
});

/** Markdown to render. */
interface MarkdownProps {
  readonly text: string;
  /** Whether it grows: what is open at its end is shown as if it were closed, with a cursor behind it. */
  readonly isLive?: boolean | undefined;
}

/** Renders Markdown of a model. While the text grows, only its last part is parsed again. */
export const Markdown = memo(function Markdown({ text, isLive = false }: MarkdownProps): ReactNode {
  const parts = useMemo(() => (isHeavy(text, MARKS_ALL_MAX) ? undefined : splitMarkdown(text)), [text]);
  return (
    <div className={classes("min-w-0 break-words leading-relaxed", isLive && "agent-live")}>
      {parts === undefined && <Plain text={text} />}
      {parts?.map((part, at) => (
        <Part key={at} text={isLive && at === parts.length - 1 ? closeTail(part) : part} />
      ))}
    </div>
  );
});

/** Code in its language, with a button that copies it. */
function CodeBlock({ children }: { readonly children?: ReactNode }): ReactNode {
  const { text, language } = codeOf(children);
  const { code } = useWording().labels.markdown;
  return (
    <div className="my-2">
      <CodeView text={text} title={language ?? code} language={language} />
    </div>
  );
}

interface Code {
  readonly text: string;
  readonly language: string | undefined;
}

/** The text of a code element, and the language that its class names. */
function codeOf(children: ReactNode): Code {
  const [first] = Children.toArray(children);
  if (!isValidElement<{ className?: string; children?: ReactNode }>(first))
    return { text: textOf(children), language: undefined };
  const language = /\blanguage-([\w+#.-]{1,32})/u.exec(first.props.className ?? "")?.[1];
  return { text: textOf(first.props.children).replace(/\n$/u, ""), language };
}

/** The words of some content, also those inside other elements; of an image, the words that are shown for it. */
function textOf(children: ReactNode): string {
  return Children.toArray(children)
    .map((child) => {
      if (!isValidElement<{ children?: ReactNode; alt?: string }>(child)) return typeof child === "string" ? child : "";
      return (child.props.alt ?? "") + textOf(child.props.children);
    })
    .join("");
}

/** Line breaks of a model are meant: they stay, as they do in a terminal. */

interface Node {
  readonly type: string;
  readonly value?: string;
  children?: Node[];
}

/** A plugin for remark: every line break in a text is one on the page. */
function keepBreaks(): (tree: Node) => void {
  return breakLines;
}

function breakLines(node: Node): void {
  if (node.children === undefined) return;
  node.children = node.children.flatMap(linesOf);
  node.children.forEach(breakLines);
}

function linesOf(node: Node): Node[] {
  if (node.value === undefined) return [node];
  // Characters that turn text around or cannot be seen are shown for what they are, in code as well.
  const text = undisguised(node.value);
  if (node.type !== "text" || !text.includes("\n")) return [{ ...node, value: text }];
  return text
    .split("\n")
    .flatMap((value, at) => [
      ...(at === 0 ? [] : [{ type: "break" }]),
      ...(value === "" ? [] : [{ type: "text", value }]),
    ]);
}

/** Markdown cut into parts that mean the same alone, so that only the last one is read again while it grows. */

const FENCE = /^ {0,3}(`{3,}|~{3,})/u;
/** A line that cannot belong to what stands before a blank line: no list item, no indentation, no quote. */
const FRESH = /^(?![ \t]|[-*+]\s|\d{1,9}[.)]\s|>|\|)\S/u;
/** Link targets and footnotes apply to the whole text. */
const DEFINITION = /^ {0,3}\[[^\]]+\]:/mu;
const FOOTNOTE = /\[\^[^\]]+\]/u;

/** The parts of a text, in order; joined by nothing they are the text again. */
export function splitMarkdown(text: string): readonly string[] {
  if (DEFINITION.test(text) || FOOTNOTE.test(text)) return [text];
  const parts: string[] = [];
  let part = "";
  let fence: string | undefined;
  let isAfterBlank = false;
  for (const line of text.split(/(?<=\n)/u)) {
    if (isAfterBlank && fence === undefined && FRESH.test(line)) {
      parts.push(part);
      part = "";
    }
    part += line;
    fence = fenceAfter(line, fence);
    isAfterBlank = line.trim() === "";
  }
  if (part !== "") parts.push(part);
  return parts;
}

/** The fence that is open behind a line. */
function fenceAfter(line: string, fence: string | undefined): string | undefined {
  const mark = FENCE.exec(line)?.[1];
  if (fence === undefined) return mark;
  return mark?.startsWith(fence) === true && line.trim() === mark ? undefined : fence;
}

// The end of Markdown that is still being written: open marks are closed, and marks without text are left out.

/** Where words begin anew: behind a blank line, or at a list item, a heading, a quote or a row. */
const FRESH_LINE = /^\s*(?:[-*+]\s|\d{1,9}[.)]\s|#{1,6}\s|>|\|)|^\s*$/u;
const MARK = /\\[^]|`+|\*+|_+|~{2,}/gu;
const WORD = /[\p{L}\p{N}]/u;

interface Mark {
  readonly sign: string;
  count: number;
}

/** The text with the marks of its unfinished end closed. */
export function closeTail(text: string): string {
  const start = lastWords(text);
  return start === undefined ? text : text.slice(0, start) + closed(text.slice(start));
}

/** Where the words begin that a mark may span; undefined inside a block of code. */
function lastWords(text: string): number | undefined {
  let fence: string | undefined;
  let position = 0;
  let start = 0;
  for (const line of text.split(/(?<=\n)/u)) {
    fence = fenceAfter(line, fence);
    if (FRESH_LINE.test(line)) start = position;
    position += line.length;
  }
  return fence === undefined ? start : undefined;
}

function closed(source: string): string {
  const open: Mark[] = [];
  MARK.lastIndex = 0;
  for (let match = MARK.exec(source); match !== null; match = MARK.exec(source)) {
    const [mark] = match;
    const end = match.index + mark.length;
    if (mark.startsWith("\\")) continue;
    if (mark.startsWith("`")) {
      const close = endOfCode(source, mark, end);
      if (close === undefined)
        return end === source.length ? finish(source.slice(0, match.index), open) : finish(source + mark, open);
      MARK.lastIndex = close;
      continue;
    }
    const isLeft = take(
      open,
      { sign: mark.charAt(0), count: mark.length },
      { before: source.charAt(match.index - 1), after: source.charAt(end) },
    );
    // A mark at the very end has no words yet.
    if (isLeft && end === source.length) return finish(source.slice(0, match.index), open.slice(0, -1));
  }
  return finish(source, open);
}

/** Behind the end of a piece of code; undefined if it has none. */
function endOfCode(source: string, mark: string, from: number): number | undefined {
  const runs = /`+/gu;
  runs.lastIndex = from;
  for (let match = runs.exec(source); match !== null; match = runs.exec(source))
    if (match[0] === mark) return runs.lastIndex;
  return undefined;
}

interface Beside {
  readonly before: string;
  readonly after: string;
}

/** Closes what a mark closes, or opens it; returns whether it opened something. */
function take(open: Mark[], mark: Mark, beside: Beside): boolean {
  const top = open.at(-1);
  if (top?.sign === mark.sign && canClose(mark, beside)) {
    const count = Math.min(top.count, mark.count);
    top.count -= count;
    mark.count -= count;
    if (top.count === 0) open.pop();
    return mark.count > 0 && take(open, mark, beside);
  }
  const isOpening = canOpen(mark, beside);
  if (isOpening) open.push(mark);
  return isOpening;
}

function canClose({ sign }: Mark, { before, after }: Beside): boolean {
  return before.trim() !== "" && !(sign === "_" && WORD.test(after));
}

/** A single star or a line inside a word is most often no mark. */
function canOpen({ sign, count }: Mark, { before, after }: Beside): boolean {
  const isInside = WORD.test(before) && (sign === "_" || count === 1);
  return !isInside && (after === "" || after.trim() !== "");
}

function finish(source: string, open: readonly Mark[]): string {
  return open.length === 0
    ? source
    : source.trimEnd() +
        open
          .toReversed()
          .map(({ sign, count }) => sign.repeat(count))
          .join("");
}
