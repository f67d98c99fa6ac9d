/** Classes that components share. Colours, sizes and durations are the tokens of `preset.css`. */

export const FOCUS =
  "focus-visible:outline-2 focus-visible:outline-offset-2 focus-visible:outline-agent-focus focus-visible:outline-solid";

const BUTTON = `inline-flex min-h-agent-control cursor-pointer items-center justify-center gap-1.5 rounded-md border px-2.5 py-1 text-sm transition-colors duration-agent disabled:cursor-not-allowed disabled:opacity-60 ${FOCUS}`;

/** A button, by how much it matters. */
export const BUTTONS = {
  default: `${BUTTON} border-agent-field bg-agent-bg text-agent-text hover:bg-agent-raised`,
  primary: `${BUTTON} border-transparent bg-agent-accent font-semibold text-agent-on-accent hover:bg-agent-accent-strong`,
  danger: `${BUTTON} border-agent-field bg-agent-bg font-medium text-agent-danger-text hover:bg-agent-danger-soft`,
  quiet: `${BUTTON} border-transparent bg-transparent text-agent-muted hover:bg-agent-raised hover:text-agent-text`,
} as const;

export const CARD = "rounded-lg border border-agent-border bg-agent-bg wrap-anywhere text-agent-text";

export const FIELD = `min-h-agent-control w-full rounded-md border border-agent-field bg-agent-bg px-2.5 py-1 text-sm text-agent-text placeholder:text-agent-muted ${FOCUS}`;

export const CODE =
  "max-h-96 overflow-auto whitespace-pre-wrap break-words rounded-md border border-agent-border bg-agent-code px-3 py-2 font-mono text-xs text-agent-text";

/** A choice that is on or off, in a row of such choices. */
export const CHIP = `inline-flex min-h-6 cursor-pointer items-center gap-1 rounded-full border px-2.5 text-xs font-medium whitespace-nowrap transition-colors duration-agent disabled:cursor-not-allowed disabled:opacity-60 pointer-coarse:min-h-9 ${FOCUS}`;

/** A chip, by whether it is on. */
export const CHIPS = {
  off: `${CHIP} border-agent-border bg-agent-surface text-agent-muted hover:text-agent-text`,
  on: `${CHIP} border-transparent bg-agent-accent-soft text-agent-accent-text`,
} as const;

/** Joins classes; what is false is left out. */
export function classes(...names: readonly (string | false | undefined)[]): string {
  return names.filter((name) => name !== false && name !== undefined && name !== "").join(" ");
}
