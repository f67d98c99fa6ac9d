import { defineConfig } from "vitest/config";

/** A guard that ends a test that hangs, and nothing that a busy machine meets. */
const TEST_MS = 120_000;

export default defineConfig({
  test: { include: ["web/*/test/**/*.test.{ts,tsx}"], testTimeout: TEST_MS, hookTimeout: TEST_MS },
});
