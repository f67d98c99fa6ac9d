/** Wire types of Windlass: validators, their types, the strict codec, and the fold of a conversation. */
import type { Event, EventDataByType } from "./generated/index.js";
import { EVENT_DATA } from "./generated/index.js";

export * from "./generated/index.js";
export { Json, JsonObject } from "./wire.js";
export type { JsonValue } from "./wire.js";
export { decode, encode, parse } from "./codec.js";
export { CodecError } from "./codec-error.js";
export type { CodecErrorCode, Issue, Position } from "./codec-error.js";
export * from "./limits.js";
export { toEvent } from "./handlers.js";
export { actionName } from "./chat-content.js";
export { EMPTY_CHAT, foldChat, RecordGap, stepMessageId } from "./chat.js";
export type { ChatState, ChatStep } from "./chat.js";
export { addUsage, foldUsage, NO_USAGE } from "./usage.js";
export type { Tally, UsageState } from "./usage.js";
export { EMPTY_CONVERSATION, isRunning, reduceConversation } from "./conversation.js";
export type { CallProgress, Conversation, LiveInput, LiveStep, Note, RunView, Subagent } from "./conversation.js";
export { attachmentsOf, textOfContent } from "./attachments.js";
export type { Attachment } from "./attachments.js";
export { chatItems } from "./conversation-items.js";
export type { CallStatus, CallView, ChatItem } from "./conversation-items.js";

/** An event of a known type, with its data typed: switch on `type`. */
export type KnownEvent = {
  [K in keyof EventDataByType]: Event & { readonly type: K; readonly data: EventDataByType[K] };
}[keyof EventDataByType];

/** Tells events of known types from those of a newer version. */
export function isKnown(event: Event): event is KnownEvent {
  return Object.hasOwn(EVENT_DATA, event.type);
}
