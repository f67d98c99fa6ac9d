/** Primitives that every page is made of: button, badge, chip, panel, dialog, and views of code and JSON. */
import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import { memo, useEffect, useId, useMemo, useState, type ComponentPropsWithoutRef, type ReactNode } from "react";
import { cut, undisguised } from "./format.js";
import { useWording } from "./labels.js";
import { BUTTONS, CARD, CHIPS, classes, CODE, FOCUS } from "./styles.js";

/** A button; `default` when it says nothing about how much it matters. */
export interface ButtonProps extends ComponentPropsWithoutRef<"button"> {
  readonly variant?: keyof typeof BUTTONS | undefined;
}

/** A button that does not submit a form unless it says so. */
export function Button({ variant = "default", className, type = "button", ...rest }: ButtonProps): ReactNode {
  return <button type={type} className={classes(BUTTONS[variant], className)} {...rest} />;
}

const TONES = {
  good: "bg-agent-success-soft text-agent-success",
  bad: "bg-agent-danger-soft text-agent-danger-text",
  wait: "bg-agent-warning-soft text-agent-warning",
  info: "bg-agent-accent-soft text-agent-accent-text",
  plain: "border border-agent-border bg-agent-surface text-agent-muted",
} as const;

/** What a badge says about its subject. */
export type Tone = keyof typeof TONES;

export interface BadgeProps extends ComponentPropsWithoutRef<"span"> {
  readonly tone?: Tone | undefined;
}

/** A state in a word. Its colour says the same again, and nothing more. */
export function Badge({ tone = "plain", className, ...rest }: BadgeProps): ReactNode {
  return (
    <span
      className={classes(
        "inline-flex shrink-0 items-center gap-1 rounded-full px-2 py-px text-xs font-semibold whitespace-nowrap",
        TONES[tone],
        className,
      )}
      {...rest}
    />
  );
}

export interface ChipProps {
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
  readonly isDisabled?: boolean | undefined;
  readonly children: ReactNode;
}

/** A choice that is on or off. */
export function Chip({ isOn, onChange, isDisabled = false, children }: ChipProps): ReactNode {
  return (
    <button
      type="button"
      aria-pressed={isOn}
      disabled={isDisabled}
      className={isOn ? CHIPS.on : CHIPS.off}
      onClick={() => {
        onChange(!isOn);
      }}
    >
      {children}
    </button>
  );
}

export interface PanelProps {
  readonly title: string;
  /** Stands beside the title. */
  readonly aside?: ReactNode;
  readonly className?: string | undefined;
  readonly children?: ReactNode;
}

/** A box with a title. */
export function Panel({ title, aside, className, children }: PanelProps): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id} className={classes(CARD, "min-w-0 px-4 py-3", className)}>
      <div className="mb-1 flex flex-wrap items-baseline justify-between gap-x-3 gap-y-1">
        <h2 id={id} className="text-sm font-semibold">
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

export interface DialogProps {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children?: ReactNode;
}

/**
 * A dialog that holds the focus until it is closed.
 *
 * Its backdrop is not that of Radix, which writes a style sheet into the page: a strict content policy refuses that.
 */
export function Dialog({ title, isOpen, onClose, children }: DialogProps): ReactNode {
  const { labels } = useWording();
  return (
    <Radix.Root
      open={isOpen}
      onOpenChange={(next) => {
        if (!next) onClose();
      }}
    >
      <Radix.Portal>
        <div aria-hidden className="fixed inset-0 z-40 bg-black/50" />
        <Radix.Content
          aria-describedby={undefined}
          className="agent-ui fixed top-1/2 left-1/2 z-50 flex max-h-[85dvh] w-[min(36rem,92vw)] -translate-1/2 flex-col gap-3 overflow-y-auto rounded-lg border border-agent-border bg-agent-bg p-5 text-agent-text shadow-xl outline-none"
        >
          <div className="flex items-center justify-between gap-3">
            <Radix.Title className="text-base font-semibold">{title}</Radix.Title>
            <Radix.Close aria-label={labels.common.close} className={classes(BUTTONS.quiet, "px-1.5")}>
              <X aria-hidden className="size-4" />
            </Radix.Close>
          </div>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

const COPIED_MS = 2_000;

/** A button that copies a text. */
export function CopyButton({ text, label }: { readonly text: string; readonly label?: string | undefined }): ReactNode {
  const { common } = useWording().labels;
  const [outcome, setOutcome] = useState<string>();
  useEffect(() => {
    if (outcome === undefined) return;
    const timer = setTimeout(() => {
      setOutcome(undefined);
    }, COPIED_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [outcome]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome(common.copied);
    } catch {
      // The browser refuses it, or has no clipboard for a page that came over plain HTTP.
      setOutcome(common.notCopied);
    }
  };
  return (
    <button
      type="button"
      className={classes(BUTTONS.quiet, "min-h-6! px-1.5! py-0! text-xs!")}
      onClick={() => {
        void copy();
      }}
    >
      <span aria-live="polite">{outcome ?? label ?? common.copy}</span>
    </button>
  );
}

/** Texts longer than this are shown whole on demand. */
const CHARS_MAX = 20_000;
/** Texts longer than this say how large they are. */
const SIZED_CHARS_MIN = 2_000;

export interface CodeViewProps {
  readonly text: string;
  /** What the text is; also its label. */
  readonly title: string;
  /** The language that its words are coloured for; none when absent. */
  readonly language?: string | undefined;
  /** The label of the button that copies it. */
  readonly copyLabel?: string | undefined;
  /** More that can be done with it, beside that button. */
  readonly action?: ReactNode;
}

/** A text of a program, a tool or a model, as it is, with a title and a button that copies it. */
export function CodeView({ text, title, language, copyLabel, action }: CodeViewProps): ReactNode {
  const { labels, formatBytes } = useWording();
  const [isWhole, setIsWhole] = useState(false);
  const isCut = !isWhole && text.length > CHARS_MAX;
  return (
    <div className="min-w-0">
      <div className="mb-1 flex items-center justify-between gap-2 text-xs font-semibold text-agent-muted">
        <span>
          {title}
          {text.length > SIZED_CHARS_MIN && <span className="font-normal"> {formatBytes(text.length)}</span>}
        </span>
        <span className="flex items-center">
          <CopyButton text={text} label={copyLabel} />
          {action}
        </span>
      </div>
      <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label={title}>
        <Coloured text={undisguised(isCut ? cut(text, CHARS_MAX) : text)} language={language} />
      </pre>
      {isCut && (
        <Button
          className="mt-1"
          onClick={() => {
            setIsWhole(true);
          }}
        >
          {labels.common.showAll(formatBytes(text.length))}
        </Button>
      )}
    </div>
  );
}

export interface JsonViewProps extends Omit<CodeViewProps, "text" | "language"> {
  readonly value: unknown;
}

/** A value as coloured JSON; a text as itself. */
export function JsonView({ value, ...rest }: JsonViewProps): ReactNode {
  const isText = typeof value === "string";
  const text = useMemo(() => (isText ? value : JSON.stringify(value, undefined, 2)), [value, isText]);
  return <CodeView text={text} language={isText ? undefined : "json"} {...rest} />;
}

// Syntax colour: one pass that finds comments, strings, numbers and keywords. It is small, and what it does not know is
// shown as it is.

type Kind = "comment" | "string" | "number" | "keyword";

const COLOURS: Readonly<Record<Kind, string>> = {
  comment: "text-agent-muted italic",
  string: "text-agent-success",
  number: "text-agent-warning",
  keyword: "text-agent-accent-text",
};
const STRING = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`;
const C_COMMENT = String.raw`\/\/[^\n]*|\/\*[^]*?\*\/`;
const HASH_COMMENT = String.raw`(?<![\w$])#[^\n]*`;
const C_WORDS =
  "async await break case catch class const continue default do else enum export extends false final finally fn for from func function go if impl implements import in instanceof interface let match mut new nil null package private pub public return self static struct super switch this throw true try type typeof undefined use var void while yield";
const HASH_WORDS =
  "and as assert async await break case class continue def del do done elif else end esac except export False fi finally for from function global if import in is lambda local match None nonlocal not or pass raise return then True try while with yield true false null";
const SQL_WORDS =
  "select from where and or not insert into values update set delete create table index primary key join left inner outer on group by order having limit as distinct union null is in exists case when then else end";

interface Grammar {
  readonly find: RegExp;
  readonly words: ReadonlySet<string>;
  readonly isLoose: boolean;
}

function grammar(comment: string, strings: string, keywords: string, isLoose = false): Grammar {
  const find = `(${comment})|(${strings})|(?<![\\w$.])(\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?)(?![\\w])|([A-Za-z_$][\\w$]*)`;
  return { find: new RegExp(find, "gu"), words: new Set(keywords.split(" ")), isLoose };
}

const NEVER = "(?!)";
const LIKE_C = grammar(C_COMMENT, `${STRING}|\`(?:\\\\[^]|[^\`\\\\])*\``, C_WORDS);
const LIKE_PYTHON = grammar(HASH_COMMENT, `"""[^]*?"""|'''[^]*?'''|${STRING}`, HASH_WORDS);
const JSON_LIKE = grammar(NEVER, STRING, "true false null");
const SQL = grammar(String.raw`--[^\n]*|\/\*[^]*?\*\/`, STRING, SQL_WORDS, true);
const GRAMMARS: ReadonlyMap<string, Grammar> = new Map([
  ...["js", "jsx", "ts", "tsx", "javascript", "typescript", "c", "cpp", "c++", "cs", "csharp", "java", "kotlin"].map(
    (name) => [name, LIKE_C] as const,
  ),
  ...["swift", "go", "rust", "rs", "php", "scala", "css", "scss", "dart"].map((name) => [name, LIKE_C] as const),
  ...["py", "python", "sh", "bash", "shell", "zsh", "ruby", "rb", "yaml", "yml", "toml", "ini", "dockerfile"].map(
    (name) => [name, LIKE_PYTHON] as const,
  ),
  ["json", JSON_LIKE],
  ["jsonc", JSON_LIKE],
  ["sql", SQL],
]);

/** A piece of a text and what it is; undefined for what has no colour. */
export type Token = readonly [text: string, kind: Kind | undefined];

/** The pieces of a text in a language, in order: joined they are the text. Unknown languages are one piece. */
export function tokensOf(text: string, language: string | undefined): readonly Token[] {
  const grammarOfLanguage = GRAMMARS.get(language?.toLowerCase() ?? "");
  if (grammarOfLanguage === undefined) return [[text, undefined]];
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(grammarOfLanguage.find)) {
    const [all, comment, string, number, word = ""] = match;
    const isWord = grammarOfLanguage.words.has(grammarOfLanguage.isLoose ? word.toLowerCase() : word);
    const kind =
      comment !== undefined
        ? "comment"
        : string !== undefined
          ? "string"
          : number !== undefined
            ? "number"
            : isWord
              ? "keyword"
              : undefined;
    if (kind === undefined) continue;
    if (match.index > end) tokens.push([text.slice(end, match.index), undefined]);
    tokens.push([all, kind]);
    end = match.index + all.length;
  }
  if (end < text.length) tokens.push([text.slice(end), undefined]);
  return tokens;
}

/** A longer text is shown without colours: each coloured word is an element. */
const COLOURED_CHARS_MAX = 100_000;

/** A text with its words coloured. */
export const Coloured = memo(function Coloured({
  text,
  language,
}: Pick<CodeViewProps, "text" | "language">): ReactNode {
  const tokens = useMemo(
    () => tokensOf(text, text.length > COLOURED_CHARS_MAX ? undefined : language),
    [text, language],
  );
  return tokens.map(([piece, kind], at) =>
    kind === undefined ? (
      piece
    ) : (
      <span key={at} className={COLOURS[kind]}>
        {piece}
      </span>
    ),
  );
});
