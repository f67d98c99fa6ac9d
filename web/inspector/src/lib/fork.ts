/** Where to fork a session so that a message is the last thing in it, or the next thing to say. */
import { foldChat, type ChatMessage, type Event } from "@windlass/protocol";
import { client, newKey } from "./api.js";

/** What begins something: a fork ends in front of it, not in the middle. */
const BEGINNINGS: ReadonlySet<string> = new Set(["run.started", "turn.started", "message.received", "step.started"]);
/** What stands in front of the words of a user. */
const OPENINGS: ReadonlySet<string> = new Set(["run.started", "turn.started"]);

/** All records of a session up to now. */
export async function readRecords(sessionId: string): Promise<readonly Event[]> {
  const records: Event[] = [];
  for await (const { event } of client.sessionEvents(sessionId, { follow: false }))
    if (event.index === undefined) records.push(event);
  return records;
}

/**
 * The record after which a fork begins: behind what an agent said and did, in front of what a user said.
 *
 * Zero if nothing was said before, and undefined if the message is not in the journal.
 */
export function forkPoint(records: readonly Event[], message: Pick<ChatMessage, "id" | "role">): number | undefined {
  const seq = firstSeqOf(records, message.id);
  if (seq === undefined) return undefined;
  if (message.role === "user") {
    let at = seq - 1;
    while (at > 0 && OPENINGS.has(records[at - 1]?.type ?? "")) at -= 1;
    return at <= 1 ? 0 : at;
  }
  const next = records.findIndex((record, at) => at >= seq && BEGINNINGS.has(record.type));
  if (next === -1) return records.length;
  // The next model call is written together with the last result: in front of it there is no safe point.
  return records[next]?.type === "step.started" ? next + 1 : next;
}

/** The record with which a message came: from there on it is in the chat, so half of what is left is enough each time. */
function firstSeqOf(records: readonly Event[], messageId: string): number | undefined {
  const isThere = (count: number): boolean =>
    foldChat(records.slice(0, count)).messages.some(({ id }) => id === messageId);
  if (!isThere(records.length)) return undefined;
  let low = 1;
  let high = records.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (isThere(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Forks a session at a record; returns the new session. */
export async function forkAt(sessionId: string, at: number): Promise<string> {
  return (await client.fork(sessionId, { at }, { idempotencyKey: newKey() })).sessionId;
}

/** Forks a session at a message; returns the new session, or undefined if there is nothing before the message. */
export async function forkAtMessage(sessionId: string, message: ChatMessage): Promise<string | undefined> {
  const records = await readRecords(sessionId);
  const at = forkPoint(records, message);
  if (at === undefined) throw new Error("This message is not in the journal yet. Try again in a moment.");
  if (at === 0) return undefined;
  const point = (await client.safePoints(sessionId, { before: at + 1, limit: 1 })).safePoints.at(-1) ?? 0;
  // A fork that begins earlier would not have the message.
  const isWhole =
    message.role === "user" || foldChat(records.slice(0, point)).messages.some(({ id }) => id === message.id);
  if (!isWhole)
    throw new Error("A call of this message is still under way. Fork when it is done, or from an earlier message.");
  return point === 0 ? undefined : forkAt(sessionId, point);
}
