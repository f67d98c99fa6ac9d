/** Files in what a user says. */
import type { UserContent, UserPart } from "./generated/index.js";

/** A file or a picture that came with a message. */
export interface Attachment {
  readonly kind: "image" | "file";
  readonly name: string;
  readonly mediaType: string;
  /** How large it is, if the message has it whole. */
  readonly bytes?: number | undefined;
}

const DATA = /^data:([^;,]*)[^,]*;base64,/u;

/** The files of a message, in order. */
export function attachmentsOf(parts: readonly UserPart[]): readonly Attachment[] {
  return parts.flatMap((part): Attachment[] => {
    if (part.type === "text") return [];
    const source = part.type === "image" ? part.image : part.data;
    const found = DATA.exec(source.slice(0, 256));
    const mediaType = part.mediaType ?? found?.[1] ?? "";
    const name =
      part.type === "file" && part.filename !== undefined ? part.filename : part.type === "image" ? "picture" : "file";
    const bytes = found === null ? undefined : Math.floor(((source.length - found[0].length) * 3) / 4);
    return [{ kind: part.type, name, mediaType, bytes }];
  });
}

/** The text of what a user says. */
export function textOfContent(content: UserContent): string {
  return typeof content === "string"
    ? content
    : content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
