import { BUTTONS } from "@windlass/ui";
import { useEffect, useId, useRef, type ReactNode } from "react";

interface ConfirmProps {
  readonly title: string;
  /** What the button says that does it. */
  readonly action: string;
  readonly isOpen: boolean;
  readonly isBusy: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
  /** What will happen. */
  readonly children: ReactNode;
}

/** Asks once more before something that cannot be taken back. The browser's own dialog: Escape closes it. */
export function Confirm({ title, action, isOpen, isBusy, onConfirm, onClose, children }: ConfirmProps): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-labelledby={id}
      className="m-auto w-full max-w-md rounded-lg border border-agent-border bg-agent-bg p-5 text-sm text-agent-text backdrop:bg-black/50"
    >
      <h2 id={id} className="mb-2 text-base font-semibold wrap-anywhere">
        {title}
      </h2>
      <div className="flex flex-col gap-2 text-agent-muted">{children}</div>
      <div className="mt-4 flex justify-end gap-2">
        <button type="button" className={BUTTONS.default} onClick={onClose}>
          Keep it
        </button>
        <button type="button" className={BUTTONS.danger} disabled={isBusy} onClick={onConfirm}>
          {action}
        </button>
      </div>
    </dialog>
  );
}
