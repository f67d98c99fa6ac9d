/** Smaller ones of the shared classes; the marks win over those. */
import { BUTTONS, FIELD } from "@windlass/ui";

export const SMALL_FIELD = `${FIELD} min-h-8 w-auto! py-1! text-xs!`;
export const SMALL_BUTTON = `${BUTTONS.default} min-h-8! px-2.5! py-1! text-xs!`;
export const SMALL_DANGER = `${BUTTONS.default} min-h-8! px-2.5! py-1! text-xs! text-agent-danger-text!`;

/** A hint at a key: for those who have a keyboard. */
export const KEY_HINT = "max-sm:hidden pointer-coarse:hidden";
