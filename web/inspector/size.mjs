/** Says how large the built app is, gzipped, and fails if that is too much for a wheel, or for a first visit. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BYTES_MAX = 2 * 1_048_576;
const FIRST_BYTES_MAX = 262_144;
const folder = fileURLToPath(new URL("../../packages/server/src/windlass_server/inspector/dist", import.meta.url));

const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
const bytes = files.reduce((sum, file) => sum + gzipSync(readFileSync(join(file.parentPath, file.name))).length, 0);
const format = (count) => count.toLocaleString("en-US");
console.log(`The inspector takes ${format(bytes)} of ${format(BYTES_MAX)} bytes, gzipped, in ${files.length} files.`);
// What the first page needs before it can show anything: the entry, and what that imports at once.
const page = readFileSync(join(folder, "index.html"), "utf8");
const first = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/gu)].map(([, name]) => name);
const firstBytes = first.reduce((sum, name) => sum + gzipSync(readFileSync(join(folder, name))).length, 0);
console.log(`The first files take ${format(firstBytes)} of ${format(FIRST_BYTES_MAX)} bytes.`);
if (bytes > BYTES_MAX || firstBytes > FIRST_BYTES_MAX) {
  console.error("It is too large: find what grew with `npx vite build` in web/inspector.");
  process.exit(1);
}
