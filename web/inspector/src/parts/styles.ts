/** Smaller ones of the shared classes; the marks win over those. */
import { BUTTONS, FIELD } from "@windlass/ui";

export const SMALL_FIELD = `${FIELD} min-h-9 w-auto! py-1!`;
export const SMALL_BUTTON = `${BUTTONS.default} min-h-8! px-2! py-0.5! text-xs!`;
