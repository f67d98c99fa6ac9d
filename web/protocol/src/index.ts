/** Wire types of Windlass: validators, their types, the strict codec, and the fold of a conversation. */
export * from "./generated/index.js";
export { Json, JsonObject } from "./wire.js";
export type { JsonValue } from "./wire.js";
export {
  CodecError,
  decode,
  DEFAULT_LIMITS,
  DEPTH_MAX,
  encode,
  ERROR_ISSUES_MAX,
  ERROR_KEY_CHARS_MAX,
  ERROR_PATH_CHARS_MAX,
  ERROR_TEXT_CHARS_MAX,
  INTEGER_MAX,
  MESSAGE_BYTES_MAX,
  NUMBER_CHARS_MAX,
  parse,
} from "./codec.js";
export type { CodecErrorCode, CodecLimits, Issue, Position } from "./codec.js";
export { isKnown, toEvent } from "./events.js";
export type { KnownEvent } from "./events.js";
export { actionName, addUsage, EMPTY_CHAT, foldChat, foldUsage, NO_USAGE, RecordGap, stepMessageId } from "./chat.js";
export type { ChatState, ChatStep, Tally, UsageState } from "./chat.js";
export {
  attachmentsOf,
  chatItems,
  conversationFrom,
  EMPTY_CONVERSATION,
  isPageStart,
  isRunning,
  reduceConversation,
  textOfContent,
} from "./conversation.js";
export type {
  Attachment,
  CallAnswer,
  CallProgress,
  CallStatus,
  CallView,
  ChatItem,
  Conversation,
  LiveInput,
  LiveStep,
  Note,
  RunView,
  Subagent,
  UserInput,
} from "./conversation.js";
