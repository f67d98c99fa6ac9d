/** Text that becomes code: from an argument, a pipe, a here-document. */
import type { Call, Scene } from "./scene.js";
import { COMPUTED, DECODED, FETCHED, NAMES, SECRET, UNSET } from "./scene.js";
import { strip } from "./text.js";

/** Grade text that a shell runs, as far as it is known. */
export function runText(call: Call, text: string, scene: Scene): string {
  if (noteOrigin(call, text)) return COMPUTED;
  if ([UNSET, COMPUTED, NAMES, SECRET].some((mark) => text.includes(mark))) {
    call.note("unknown/dynamic", text);
    if (strip(text, UNSET + COMPUTED + NAMES + SECRET + " \n\"'") === "") {
      call.note("destructive/eval", text);
      return COMPUTED;
    }
  }
  return call.engine.runCode(text, scene);
}

/** Report code whose origin alone makes it dangerous. */
export function noteOrigin(call: Call, text: string): boolean {
  if (text.includes(FETCHED)) call.note("destructive/remote-code");
  else if (text.includes(DECODED)) call.note("destructive/eval");
  else return false;
  return true;
}
