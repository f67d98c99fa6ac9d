import type { JsonObject } from "@windlass/protocol";
import { expect, test } from "vitest";

import { classifyShellCommand, type SidecarConnection } from "../src/shell.js";

class Answering implements SidecarConnection {
  readonly requests: { readonly method: string; readonly params: JsonObject }[] = [];

  constructor(private readonly answer: unknown) {}

  request(method: string, params: JsonObject): Promise<unknown> {
    this.requests.push({ method, params });
    return Promise.resolve(this.answer);
  }
}

const SAFE = { severity: "safe", category: "read", reasons: [], commands: [["ls"]] };

test("the sidecar is asked for the verdict", async () => {
  const sidecar = new Answering(SAFE);
  expect(await classifyShellCommand(sidecar, "ls")).toEqual(SAFE);
  expect(sidecar.requests).toEqual([{ method: "harness.classifyShell", params: { command: "ls" } }]);
});

test("the rules of the host are sent along", async () => {
  const sidecar = new Answering(SAFE);
  const pattern = {
    id: "no-log",
    label: "No logs",
    description: "Logs are private.",
    category: "host/log",
    severity: "critical",
    pattern: "\\.log$",
    platform: "unix",
  } as const;
  await classifyShellCommand(sidecar, "cat a.log", { patterns: [pattern], platform: "windows" });
  expect(sidecar.requests[0]?.params).toEqual({ command: "cat a.log", patterns: [pattern], platform: "windows" });
});

test.each([null, "safe", {}, { ...SAFE, severity: "fine" }, { ...SAFE, reasons: undefined }])(
  "an answer without a verdict is an error and never a grade: %j",
  async (answer) => {
    await expect(classifyShellCommand(new Answering(answer), "ls")).rejects.toThrow(
      "the answer to harness.classifyShell is not a verdict",
    );
  },
);

test("a sidecar that refuses lets nothing through", async () => {
  const refusing = { request: () => Promise.reject(new Error("unknown method")) };
  await expect(classifyShellCommand(refusing, "ls")).rejects.toThrow("unknown method");
});
