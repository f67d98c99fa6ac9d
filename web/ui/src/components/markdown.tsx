/** Markdown of a model, which nobody trusts: it can format, and nothing else. */
import { memo, useMemo, type ComponentPropsWithoutRef, type ReactNode } from "react";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import remarkGfm from "remark-gfm";
import { keepBreaks } from "../markdown-breaks.js";
import { splitMarkdown } from "../markdown-split.js";
import { closeTail } from "../markdown-tail.js";
import { CodeBlock } from "./code-block.js";
import { classes, FOCUS } from "./styles.js";

/** What may come out. No HTML of the model gets through, and nothing here can run or fetch anything. */
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

function Link({ href = "", children }: ComponentPropsWithoutRef<"a">): ReactNode {
  const address = safeAddress(href);
  if (address === undefined) return <span>{children}</span>;
  return (
    <a
      href={address}
      target="_blank"
      rel="noopener noreferrer nofollow"
      className={classes("text-agent-link underline", FOCUS)}
    >
      {children}
    </a>
  );
}

/** An image would be fetched from somewhere, and tell that it was. It is shown as its words. */
function Image({ alt }: ComponentPropsWithoutRef<"img">): ReactNode {
  return <span className="text-agent-muted">[image{alt === undefined || alt === "" ? "" : `: ${alt}`}]</span>;
}

const heading = (size: string) =>
  function Heading({ children }: { readonly children?: ReactNode }): ReactNode {
    // A heading of the model is none of the page.
    return <p className={classes("mt-3 mb-1 font-semibold", size)}>{children}</p>;
  };

const COMPONENTS: Components = {
  a: Link,
  img: Image,
  pre: ({ children }) => <CodeBlock>{children}</CodeBlock>,
  code: ({ children, className }) => (
    <code className={classes("rounded bg-agent-code px-1 font-mono text-[0.9em]", className)}>{children}</code>
  ),
  input: ({ checked }) => (
    <input
      type="checkbox"
      checked={checked === true}
      readOnly
      disabled
      aria-label={checked === true ? "done" : "to do"}
    />
  ),
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
  table: ({ children }) => (
    <div className={classes("my-2 overflow-x-auto", FOCUS)} tabIndex={0} role="group" aria-label="table">
      <table className="border-collapse text-sm">{children}</table>
    </div>
  ),
  th: ({ children }) => <th className="border border-agent-border px-2 py-1 text-left font-semibold">{children}</th>,
  td: ({ children }) => <td className="border border-agent-border px-2 py-1">{children}</td>,
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

const Part = memo(function Part({ text }: { readonly text: string }): ReactNode {
  return (
    <ReactMarkdown
      remarkPlugins={REMARK}
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

/** What is written. */
export interface MarkdownProps {
  readonly text: string;
  /** Whether it grows: what is open at its end is shown as if it were closed, with a cursor behind it. */
  readonly isLive?: boolean | undefined;
}

/** What a model wrote. While it grows only its last part is read again. */
export const Markdown = memo(function Markdown({ text, isLive = false }: MarkdownProps): ReactNode {
  const parts = useMemo(() => splitMarkdown(text), [text]);
  return (
    <div className={classes("min-w-0 break-words leading-relaxed", isLive && "agent-live")}>
      {parts.map((part, at) => (
        <Part key={at} text={isLive && at === parts.length - 1 ? closeTail(part) : part} />
      ))}
    </div>
  );
});
