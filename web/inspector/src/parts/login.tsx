import { ApiError } from "@windlass/protocol/client";
import { BUTTONS, CARD, classes, FIELD, sentence } from "@windlass/ui";
import { useId, useState, type ReactNode } from "react";
import { door, tryKey } from "../lib/api.js";
import { Code } from "./basics.js";

/** Asks for a key. It is kept for this tab only, and sent to this server only. */
export function Login(): ReactNode {
  const id = useId();
  const [key, setKey] = useState("");
  const [error, setError] = useState<string>();
  const [isTrying, setIsTrying] = useState(false);
  const enter = async (): Promise<void> => {
    setIsTrying(true);
    setError(undefined);
    try {
      await tryKey(key.trim());
      door.open(key.trim());
    } catch (failure) {
      setError(reasonFor(failure));
    } finally {
      setIsTrying(false);
    }
  };
  return (
    <main className="flex h-full items-center justify-center p-4">
      <form
        className={classes(CARD, "flex w-full max-w-md flex-col gap-4 p-6")}
        onSubmit={(event) => {
          event.preventDefault();
          void enter();
        }}
      >
        <h1 className="text-lg font-semibold">This server wants a key</h1>
        <p className="text-sm text-agent-muted">
          Whoever runs it makes one with <Code>python -m windlass_server --new-key ID TENANT USER</Code>. It stays in
          this tab until you close it.
        </p>
        <div className="flex flex-col gap-1">
          <label htmlFor={id} className="text-xs text-agent-muted">
            API key
          </label>
          <input
            id={id}
            type="password"
            autoComplete="off"
            spellCheck={false}
            className={FIELD}
            value={key}
            aria-invalid={error !== undefined}
            aria-describedby={`${id}-error`}
            onChange={(event) => {
              setKey(event.target.value);
            }}
          />
        </div>
        <p id={`${id}-error`} role="alert" className="text-sm text-agent-danger-text empty:hidden">
          {error}
        </p>
        <button type="submit" className={BUTTONS.primary} disabled={isTrying || key.trim() === ""}>
          Enter
        </button>
      </form>
    </main>
  );
}

function reasonFor(failure: unknown): string {
  if (failure instanceof ApiError && failure.kind === "unauthorized")
    return "The server does not take this key. It may be mistyped, expired or revoked.";
  return failure instanceof Error ? sentence(failure.message) : "The server could not be asked.";
}
