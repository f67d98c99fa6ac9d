export type { Conversation } from "@windlass/protocol";
