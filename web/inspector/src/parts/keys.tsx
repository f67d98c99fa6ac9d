/** Keys of the keyboard, and the page that lists them. */
import { BUTTONS } from "@windlass/ui";
import { useEffect, useRef, type ReactNode } from "react";
import { navigate } from "../lib/router.js";

/** What keys do; a name is a key, or two with a space between them. */
export type Keys = Readonly<Record<string, () => void>>;

const PAIR_MS = 1_200;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/u.test(target.tagName))
  );
}

/** Listens to keys while nobody is writing. The newest function of a key is called. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    let first = { key: "", at: 0 };
    const onKey = (event: KeyboardEvent): void => {
      // A key that is held down is one press: what comes next was not seen yet.
      const isMeant = !event.defaultPrevented && !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey;
      if (!isMeant || isTyping(event.target) || document.querySelector("dialog[open]") !== null) return;
      const isPair = event.timeStamp - first.at < PAIR_MS;
      const run = (isPair ? latest.current[`${first.key} ${event.key}`] : undefined) ?? latest.current[event.key];
      first = { key: event.key, at: event.timeStamp };
      if (run === undefined) return;
      event.preventDefault();
      run();
    };
    addEventListener("keydown", onKey);
    return () => {
      removeEventListener("keydown", onKey);
    };
  }, []);
}

/** The keys that work everywhere. */
export const GLOBAL_KEYS: Keys = {
  "g c": () => {
    navigate("/chat");
  },
  "g a": () => {
    navigate("/approvals");
  },
  "g s": () => {
    navigate("/sessions");
  },
  "g d": () => {
    navigate("/decisions");
  },
  "g o": () => {
    navigate("/overview");
  },
};

const HELP: readonly (readonly [keys: string, text: string])[] = [
  ["?", "Show these keys"],
  ["g c · g a · g s · g d · g o", "Go to chat, approvals, sessions, decisions, overview"],
  ["/", "Search (sessions)"],
  ["j · k", "Next and previous (approvals)"],
  ["a", "Approve what is selected (approvals)"],
  ["d", "Deny it, with a reason if you like (approvals)"],
  ["s", "Approve every call of the tool in its session (approvals)"],
  ["Enter · Shift Enter", "Send; begin a new line (chat)"],
  ["Escape", "Stop the agent (in the field of the chat)"],
  ["← · →", "One record back or forward (a session as it was)"],
];

/** Lists the keys. The browser's own dialog: it holds the focus, and Escape closes it. */
export function KeysDialog({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-labelledby="keys-title"
      className="m-auto max-w-lg rounded-lg border border-agent-border bg-agent-bg p-5 text-agent-text backdrop:bg-black/50"
    >
      <h2 id="keys-title" className="mb-3 text-base font-semibold">
        Keys
      </h2>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-2 text-sm">
        {HELP.map(([keys, text]) => (
          <div key={keys} className="contents">
            <dt className="font-mono text-xs">{keys}</dt>
            <dd className="text-agent-muted">{text}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" className="mt-4 text-right">
        <button
          type="submit"
          className={BUTTONS.default}
          onClick={(event) => {
            event.preventDefault();
            onClose();
          }}
        >
          Close
        </button>
      </form>
    </dialog>
  );
}
