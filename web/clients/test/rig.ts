/** A real server process for tests. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PYTHON = process.env["PYTHON"] ?? join(ROOT, ".venv/bin/python");

export interface Ids {
  readonly sessionId: string;
  readonly runId: string;
}

/** A server process; it can be killed and started again on the same data and the same port. */
export class Windlass {
  private child: ChildProcess | undefined;
  private readonly folder = mkdtempSync(join(tmpdir(), "windlass-"));
  port = 0;

  constructor(
    /** May be others when it is started again. */
    public options: readonly string[] = ["--agents", "tests.web.agents:agents"],
    private readonly program = "windlass_server",
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The id of its process. */
  get pid(): number {
    return this.child?.pid ?? 0;
  }

  /** The address of the REST interface. */
  get api(): string {
    return `${this.url}/v1`;
  }

  async start(): Promise<this> {
    const options = ["-m", this.program, "--data", this.folder, "--port", String(this.port), ...this.options];
    // Whatever keys the machine has, an agent that needs one has none here.
    const env = { ...process.env, OPENAI_API_KEY: "" };
    const child = (this.child = spawn(PYTHON, options, { cwd: ROOT, env, stdio: ["ignore", "ignore", "pipe"] }));
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
    const answer = await fetch(`${this.api}${path}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  async post<T = Record<string, string>>(path: string, body: object = {}): Promise<T> {
    const answer = await fetch(`${this.api}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Waits until a path is answered with a status. */
  async until(path: string, status: number): Promise<void> {
    for (;;) if ((await fetch(`${this.api}${path}`)).status === status) return;
  }

  /** Sends a message in a new session, and waits until its run ends or asks for input. */
  async run(agent: string, message: string, more: object = {}): Promise<Ids> {
    const begun = await this.post<Ids>("/sessions", { agent, message, ...more });
    const feed = await fetch(`${this.api}/runs/${begun.runId}/events?format=ndjson`);
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of feed.body ?? []) {
      text = (text + decoder.decode(chunk, { stream: true })).slice(-100_000);
      if (text.includes('"run.waiting"')) break;
    }
    return begun;
  }
}

/** Makes a key and the file that a server takes it from; returns both. */
export function makeKey(): { readonly key: string; readonly file: string } {
  const folder = mkdtempSync(join(tmpdir(), "windlass-keys-"));
  const made = spawnSync(PYTHON, ["-m", "windlass_cli", "keys", "add", "k1", "ann", "--tenant", "acme"], {
    cwd: folder,
    encoding: "utf8",
  });
  if (made.status !== 0) throw new Error(`no key was made: ${made.stderr}`);
  return { key: made.stdout.trim(), file: join(folder, "keys.json") };
}
