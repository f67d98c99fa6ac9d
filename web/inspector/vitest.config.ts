import { defineConfig } from "vitest/config";

const TEST_MS = 120_000;
const POLL_MS = 45_000;

/** Tests in a real browser against a real server, one after the other: they share two cores with everything else. */
export default defineConfig({
  test: {
    include: ["test/**/*.browser.ts"],
    fileParallelism: false,
    testTimeout: TEST_MS,
    hookTimeout: TEST_MS,
    expect: { poll: { timeout: POLL_MS } },
  },
});
