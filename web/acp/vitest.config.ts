import { defineConfig } from "vitest/config";

const TEST_MS = 60_000;

/** Tests against a real `windlass acp`: they need Python, so the others run without them. */
export default defineConfig({
  test: { include: ["test/**/*.process.ts"], fileParallelism: false, testTimeout: TEST_MS, hookTimeout: TEST_MS },
});
