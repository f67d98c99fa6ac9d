import type { ChatItem } from "@windlass/protocol";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { cut } from "../format.js";
import { Row, type RowOptions } from "./message.js";
import { BUTTONS, classes, FOCUS } from "./styles.js";

/** The rows to show. */
export interface MessageListProps extends RowOptions {
  readonly items: readonly ChatItem[];
  /** Shown when there are no rows. */
  readonly empty?: ReactNode;
  readonly label?: string | undefined;
  /** From how many rows on only those in view are drawn. */
  readonly virtualFrom?: number | undefined;
  readonly className?: string | undefined;
}

const VIRTUAL_FROM = 60;
const ROW_PX = 96;
const OVERSCAN = 8;
/** How close to the end counts as being there. */
const NEAR_PX = 80;
/** What people scroll with. */
const TOUCHES = ["wheel", "touchmove", "keydown", "pointerdown"] as const;
const ANNOUNCED_CHARS_MAX = 400;

/**
 * The rows of a conversation, at its newest end unless somebody scrolls away.
 *
 * The list itself announces nothing: rows come and go as it scrolls, and words come in pieces. A hidden line beside
 * it says each finished message once.
 */
export function MessageList(props: MessageListProps): ReactNode {
  const { items, empty, label = "Conversation", virtualFrom = VIRTUAL_FROM, className, ...options } = props;
  // State and not a ref: the rows inside are ready before a ref of what is around them is.
  const [frame, setFrame] = useState<HTMLDivElement | null>(null);
  const { isAtEnd, toEnd, onScroll } = useStickToEnd(frame, items);
  const Rows = items.length >= virtualFrom ? VirtualRows : PlainRows;
  return (
    <div className={classes("relative min-h-0 flex-1", className)}>
      <div
        ref={setFrame}
        role="log"
        aria-live="off"
        aria-label={label}
        tabIndex={0}
        onScroll={onScroll}
        className={classes("h-full overflow-y-auto overscroll-contain px-4 pt-3 pb-6", FOCUS)}
      >
        <div className="mx-auto max-w-3xl">
          {items.length === 0 ? empty : <Rows items={items} options={options} frame={frame} />}
        </div>
      </div>
      {!isAtEnd && items.length > 0 && (
        <button
          type="button"
          className={classes(BUTTONS.default, "absolute bottom-3 left-1/2 -translate-x-1/2 shadow")}
          onClick={toEnd}
        >
          Newest
        </button>
      )}
      <p className="sr-only" role="status">
        {announcement(items)}
      </p>
    </div>
  );
}

interface RowsProps {
  readonly items: readonly ChatItem[];
  readonly options: RowOptions;
  readonly frame: HTMLDivElement | null;
}

function PlainRows({ items, options }: RowsProps): ReactNode {
  return (
    <div className="flex flex-col gap-5">
      {items.map((item) => (
        <Row key={item.id} item={item} {...options} />
      ))}
    </div>
  );
}

function VirtualRows({ items, options, frame }: RowsProps): ReactNode {
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (at) => items[at]?.id ?? at,
  });
  return (
    <div className="relative w-full" style={{ height: rows.getTotalSize() }}>
      {rows.getVirtualItems().map(({ index, key, start }) => {
        const item = items[index];
        return (
          <div
            key={key}
            ref={rows.measureElement}
            data-index={index}
            className="absolute top-0 left-0 w-full pb-5"
            style={{ transform: `translateY(${start}px)` }}
          >
            {item !== undefined && <Row item={item} {...options} />}
          </div>
        );
      })}
    </div>
  );
}

interface Stick {
  readonly isAtEnd: boolean;
  readonly toEnd: () => void;
  readonly onScroll: () => void;
}

/** Keeps the end in view while new things come, until somebody scrolls away from it. */
function useStickToEnd(frame: HTMLDivElement | null, items: readonly ChatItem[]): Stick {
  const [isAtEnd, setIsAtEnd] = useState(true);
  const isStuck = useRef(true);
  const isTouched = useRef(false);
  const toEnd = useCallback(() => {
    if (frame === null) return;
    isStuck.current = true;
    setIsAtEnd(true);
    frame.scrollTop = frame.scrollHeight;
    isTouched.current = false;
  }, [frame]);
  const onScroll = useCallback(() => {
    if (frame === null) return;
    // Rows that are measured move the end away by themselves: only somebody's hand has left it.
    if (frame.scrollHeight - frame.scrollTop - frame.clientHeight <= NEAR_PX) isStuck.current = true;
    else if (isTouched.current) isStuck.current = false;
    setIsAtEnd(isStuck.current);
  }, [frame]);
  useLayoutEffect(() => {
    if (isStuck.current) toEnd();
  }, [items, toEnd]);
  useEffect(() => {
    // Rows are measured after they are drawn, and grow with what is written into them.
    const content = frame?.firstElementChild;
    if (content === null || content === undefined || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => {
      if (isStuck.current) toEnd();
    });
    observer.observe(content);
    return () => {
      observer.disconnect();
    };
  }, [frame, toEnd]);
  useEffect(() => {
    if (frame === null) return;
    const onTouch = (): void => {
      isTouched.current = true;
    };
    for (const name of TOUCHES) frame.addEventListener(name, onTouch, { passive: true });
    return () => {
      for (const name of TOUCHES) frame.removeEventListener(name, onTouch);
    };
  }, [frame]);
  return { isAtEnd, toEnd, onScroll };
}

/** What to say aloud: the newest thing that is finished, or that wants an answer. */
function announcement(items: readonly ChatItem[]): string {
  const last = items.at(-1);
  if (last === undefined) return "";
  if (last.kind === "note") return last.note.text;
  if (last.kind === "request") return `The agent asks: ${last.request.prompt}`;
  const asked = last.calls.find((view) => view.request !== undefined)?.request;
  if (asked !== undefined) return `The agent asks: ${asked.prompt}`;
  return last.isLive || last.message.role === "user" ? "" : cut(last.message.content, ANNOUNCED_CHARS_MAX);
}
