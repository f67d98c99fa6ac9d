/** A real server in a process, a network that can be cut, and a real browser. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { afterAll, describe } from "vitest";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const PYTHON = process.env["PYTHON"] ?? join(ROOT, ".venv/bin/python");
const WAIT_MS = 45_000;

/** Groups tests that need a browser. `make test` installs one where it may; elsewhere they are skipped, and say so. */
export function inBrowser(name: string, tests: () => void): void {
  if (existsSync(CHROMIUM)) {
    describe(name, tests);
    return;
  }
  console.warn(`SKIPPED: ${name}. There is no browser at ${CHROMIUM}: install chromium, or set CHROMIUM to one.`);
  describe.skip(name, tests);
}

/** A server that can be killed and started again on the same data and the same port. */
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

  async start(): Promise<this> {
    const options = ["-m", this.program, "--data", this.folder, "--port", String(this.port), ...this.options];
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

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async post<T = Record<string, string>>(path: string, body: object): Promise<T> {
    const answer = await fetch(`${this.url}/v1${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Waits until a path is answered with a status. */
  async until(path: string, status: number): Promise<void> {
    for (;;) if ((await fetch(`${this.url}/v1${path}`)).status === status) return;
  }

  /** Says something to an agent in a session of its own, and waits until its run ends or waits for somebody. */
  async run(
    agent: string,
    message: string,
    more: object = {},
  ): Promise<{ readonly sessionId: string; readonly runId: string }> {
    const begun = await this.post<{ sessionId: string; runId: string }>("/sessions", { agent, message, ...more });
    const feed = await fetch(`${this.url}/v1/runs/${begun.runId}/events?format=ndjson`);
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
  const made = spawnSync(PYTHON, ["-m", "windlass_server", "--new-key", "k1", "acme", "ann"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const entry = made.stderr.split("\n").find((line) => line.startsWith("{"));
  if (entry === undefined) throw new Error(`no key was made: ${made.stderr}`);
  const file = join(mkdtempSync(join(tmpdir(), "windlass-keys-")), "keys.json");
  writeFileSync(file, `{"keys": [${entry}]}`);
  return { key: made.stdout.trim(), file };
}

/** A network between the browser and a server: it can be cut and mended. */
export class Wire {
  private readonly sockets = new Set<Socket>();
  private isCut = false;
  private readonly server: Server;
  port = 0;

  constructor(target: () => number) {
    this.server = createServer((near) => {
      if (this.isCut) {
        near.destroy();
        return;
      }
      const far = connect(target(), "127.0.0.1");
      for (const socket of [near, far]) {
        this.sockets.add(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => {
          this.sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.pipe(far);
      far.pipe(near);
    });
  }

  async open(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(this.port, "127.0.0.1", resolve));
    const address = this.server.address();
    if (address !== null && typeof address === "object") this.port = address.port;
    return this;
  }

  cut(): void {
    this.isCut = true;
    for (const socket of this.sockets) socket.destroy();
  }

  mend(): void {
    this.isCut = false;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** A page that notes whatever it should not do. */
export interface Watched {
  readonly page: Page;
  /** Errors, refused scripts and requests to anybody else. */
  readonly faults: string[];
}

let browser: Browser | undefined;

afterAll(async () => {
  await browser?.close();
  browser = undefined;
});

/** Opens a page of the server at `url`. */
export async function openPage(url: string, path: string, options: BrowserContextOptions = {}): Promise<Watched> {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const context = await browser.newContext({
    viewport: { width: 1_200, height: 760 },
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    // A server that is away is no fault of the page; the browser tells of it all the same.
    if (message.type() === "error" && !/Failed to load resource|net::ERR/u.test(message.text()))
      faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) faults.push(`asked for ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    faults.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on("page", (other) => faults.push(`opened ${other.url()}`));
  await page.goto(url + path);
  return { page, faults };
}
