import { Children, isValidElement, useEffect, useState, type ReactNode } from "react";
import { BUTTONS, classes, FOCUS } from "./styles.js";

const COPIED_MS = 2_000;

/** Code with its language and a button that copies it. */
export function CodeBlock({ children }: { readonly children?: ReactNode }): ReactNode {
  const { text, language } = codeOf(children);
  return (
    <figure className="my-2 overflow-hidden rounded-md border border-agent-border bg-agent-code">
      <figcaption className="flex items-center justify-between gap-2 border-b border-agent-border px-3 py-1 text-xs text-agent-muted">
        <span>{language ?? "code"}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre
        className={classes("overflow-x-auto p-3 text-xs", FOCUS)}
        tabIndex={0}
        role="group"
        aria-label={`${language ?? "code"} block`}
      >
        <code className="font-mono text-agent-text">{text}</code>
      </pre>
    </figure>
  );
}

/** A button that copies a text. */
export function CopyButton({ text, label = "Copy" }: { readonly text: string; readonly label?: string }): ReactNode {
  const [isCopied, setIsCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => {
      setIsCopied(false);
    }, COPIED_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [isCopied]);
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => {
        setIsCopied(true);
      },
      () => undefined,
    );
  };
  return (
    <button type="button" className={classes(BUTTONS.default, "min-h-7! px-2! py-0.5! text-xs!")} onClick={copy}>
      <span aria-live="polite">{isCopied ? "Copied" : label}</span>
    </button>
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

function textOf(children: ReactNode): string {
  return Children.toArray(children)
    .map((child) => (typeof child === "string" || typeof child === "number" ? String(child) : ""))
    .join("");
}
