/** A real server in a process, which can be killed and started again on the same data and the same port. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PYTHON = process.env["PYTHON"] ?? join(ROOT, ".venv/bin/python");
const AGENTS = "tests.web.chat_agents:agents";

export class Windlass {
  private child: ChildProcess | undefined;
  private readonly folder = mkdtempSync(join(tmpdir(), "windlass-"));
  private port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async start(): Promise<this> {
    const options = ["-m", "windlass_server", "--data", this.folder, "--port", String(this.port), "--agents", AGENTS];
    const child = (this.child = spawn(PYTHON, options, { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] }));
    this.port = await new Promise<number>((resolve, reject) => {
      let said = "";
      child.stderr.on("data", (data: Buffer) => {
        said += data.toString();
        const found = /running on http:\/\/127\.0\.0\.1:(\d+)/u.exec(said)?.[1];
        if (found !== undefined) resolve(Number(found));
      });
      child.once("exit", () => {
        reject(new Error(`the server did not start: ${said}`));
      });
    });
    return this;
  }

  /** Ends the server as a power cut does. */
  async kill(): Promise<void> {
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async get<T>(path: string): Promise<T> {
    const answer = await fetch(`${this.url}${path}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  async post(path: string, body: object = {}): Promise<void> {
    const answer = await fetch(`${this.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }
}

export interface Ids {
  readonly sessionId: string;
  readonly runId: string;
}
