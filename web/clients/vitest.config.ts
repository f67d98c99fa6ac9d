import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { readPrograms } from "./test/page.js";

const TEST_MS = 300_000;
const FOLDER = fileURLToPath(new URL("test/page/", import.meta.url));
const web = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Serves the programs of docs/electron.md as files of test/page/. */
function pagePrograms(): Plugin {
  const programs = readPrograms();
  return {
    name: "page-programs",
    enforce: "pre",
    resolveId: (id, importer) => {
      const name = basename(id).replace(/\.js$/u, ".tsx");
      const isOfPage = id.includes("/page/") || importer?.startsWith(FOLDER) === true;
      return isOfPage && programs.has(name) ? FOLDER + name : undefined;
    },
    load: (id) => (id.startsWith(FOLDER) ? programs.get(basename(id)) : undefined),
  };
}

/** Clients of others against a real server, one file after the other: they share two cores with everything else. */
export default defineConfig({
  plugins: [pagePrograms()],
  resolve: {
    alias: {
      electron: web("clients/test/electron.ts"),
      "@windlass/protocol/client": web("protocol/src/client/index.ts"),
      "@windlass/protocol": web("protocol/src/index.ts"),
      "@windlass/ui": web("ui/src/index.ts"),
    },
  },
  test: {
    include: ["test/**/*.clients.ts"],
    fileParallelism: false,
    testTimeout: TEST_MS,
    hookTimeout: TEST_MS,
    silent: "passed-only",
    // When a connection is cut, HttpAgent lets the promise go with which it wanted to end it itself.
    onUnhandledError: (error) => error.message !== "terminated",
  },
});
