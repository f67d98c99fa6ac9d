import { defineConfig } from "vitest/config";

const TEST_MS = 300_000;

/** Clients of others against a real server, one file after the other: they share two cores with everything else. */
export default defineConfig({
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
