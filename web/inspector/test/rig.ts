/** A network that can be cut, and a real browser. The server is that of the client tests. */
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, connect, type Server, type Socket } from "node:net";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { afterAll, describe } from "vitest";

export { makeKey, Windlass } from "../../clients/test/rig.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const WAIT_MS = 120_000;
/** Where pictures of pages are put for a person to look at. */
export const SHOTS = process.env["SHOTS"] ?? mkdtempSync(join(tmpdir(), "windlass-shots-"));

/** Groups tests that need a browser. `make test` installs one where it may; elsewhere they are skipped, and say so. */
export function inBrowser(name: string, tests: () => void): void {
  if (existsSync(CHROMIUM)) {
    describe(name, tests);
    return;
  }
  console.warn(`SKIPPED: ${name}. There is no browser at ${CHROMIUM}: install chromium, or set CHROMIUM to one.`);
  describe.skip(name, tests);
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
  /** Errors, refused scripts and requests to other origins. */
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
    // An unreachable server is no fault of the page, but the browser logs it.
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
