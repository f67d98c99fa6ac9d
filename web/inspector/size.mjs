/** Says how large the built app is, gzipped, and fails if that is too much for a wheel. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BYTES_MAX = 2 * 1_048_576;
const folder = fileURLToPath(new URL("../../packages/server/src/windlass_server/inspector/dist", import.meta.url));

const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
const bytes = files.reduce((sum, file) => sum + gzipSync(readFileSync(join(file.parentPath, file.name))).length, 0);
const format = (count) => count.toLocaleString("en-US");
console.log(`The inspector takes ${format(bytes)} of ${format(BYTES_MAX)} bytes, gzipped, in ${files.length} files.`);
if (bytes > BYTES_MAX) {
  console.error("It is too large for the wheel: find what grew with `npx vite build` in web/inspector.");
  process.exit(1);
}
