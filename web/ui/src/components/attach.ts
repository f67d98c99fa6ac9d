/** Files on their way into a message. */
import type { UserContent, UserPart } from "@windlass/protocol";

/** A message with its files is one request; in base64 a file takes a third more. */
export const ATTACHED_BYTES_MAX = 700_000;

/** The bytes of a file as an address that holds them. */
function dataAddress(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      resolve(typeof reader.result === "string" ? reader.result : "");
    };
    reader.onerror = () => {
      reject(new Error(`${file.name} cannot be read.`));
    };
    reader.readAsDataURL(file);
  });
}

/** Words and files as the content of a message. */
export async function contentOf(text: string, files: readonly File[]): Promise<UserContent> {
  if (files.length === 0) return text;
  const parts = await Promise.all(files.map(partOf));
  return text.trim() === "" ? parts : [{ type: "text", text }, ...parts];
}

async function partOf(file: File): Promise<UserPart> {
  const data = await dataAddress(file);
  const mediaType = file.type === "" ? "application/octet-stream" : file.type;
  return mediaType.startsWith("image/")
    ? { type: "image", image: data, mediaType }
    : { type: "file", data, mediaType, filename: file.name };
}

/** Why files cannot go with one message; undefined if they can. */
export function troubleWith(files: readonly File[]): string | undefined {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes <= ATTACHED_BYTES_MAX) return undefined;
  return `Files of one message may have ${ATTACHED_BYTES_MAX / 1_000} kB together; these have ${Math.ceil(bytes / 1_000)} kB.`;
}
