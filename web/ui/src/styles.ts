/** Classes that components share. Colours are the tokens of `preset.css`. */

export const FOCUS =
  "focus-visible:outline-2 focus-visible:outline-offset-2 focus-visible:outline-agent-focus focus-visible:outline-solid";

const BUTTON = `inline-flex min-h-9 cursor-pointer items-center justify-center gap-2 rounded-md border px-3 py-1.5 text-sm font-medium disabled:cursor-not-allowed disabled:opacity-60 ${FOCUS}`;

/** A button, by how much it matters. */
export const BUTTONS = {
  default: `${BUTTON} border-agent-border bg-agent-surface text-agent-text hover:bg-agent-raised`,
  primary: `${BUTTON} border-transparent bg-agent-accent text-agent-on-accent hover:bg-agent-accent-strong`,
  danger: `${BUTTON} border-transparent bg-agent-danger text-agent-on-danger hover:bg-agent-danger-strong`,
} as const;

export const CARD = "rounded-lg border border-agent-border bg-agent-surface wrap-anywhere text-agent-text";

export const FIELD = `w-full rounded-md border border-agent-border bg-agent-bg px-3 py-2 text-sm text-agent-text placeholder:text-agent-muted ${FOCUS}`;

export const CODE =
  "max-h-96 overflow-auto whitespace-pre-wrap break-words rounded-md bg-agent-code p-3 font-mono text-xs text-agent-text";

/** Joins classes; what is false is left out. */
export function classes(...names: readonly (string | false | undefined)[]): string {
  return names.filter((name) => name !== false && name !== undefined && name !== "").join(" ");
}
