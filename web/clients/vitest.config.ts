import { defineConfig } from "vitest/config";

const TEST_MS = 60_000;

/** Clients of others against one real server: they share two cores with everything else. */
export default defineConfig({
  test: { include: ["test/**/*.clients.ts"], fileParallelism: false, testTimeout: TEST_MS, hookTimeout: TEST_MS },
});
