/**
 * The part of Electron that docs/electron.md uses, over message ports of Node: one main process and one page.
 *
 * Ports differ on the two sides as they do in Electron: those of the main process emit Node's events and hold messages
 * until `start`; those of the page are DOM ports. Neither gets a close event of a port that it closed itself.
 */
import { EventEmitter } from "node:events";
import { basename } from "node:path";
import { MessageChannel, type MessagePort as NodePort } from "node:worker_threads";
import { readPrograms } from "./page.js";

/** A port of the main process. */
export class MessagePortMain extends EventEmitter {
  private isClosed = false;

  constructor(private port: NodePort | undefined) {
    super();
  }

  start(): void {
    this.port?.on("message", (data: unknown) => this.emit("message", { data, ports: [] }));
    this.port?.on("close", () => {
      if (!this.isClosed) this.emit("close");
    });
  }

  postMessage(message: unknown, transfer: readonly MessagePortMain[] = []): void {
    this.port?.postMessage(
      message,
      transfer.map((port) => port.release()),
    );
  }

  close(): void {
    this.isClosed = true;
    this.port?.close();
  }

  /** Gives the port away: this object is of no use then. */
  release(): NodePort {
    const { port } = this;
    if (port === undefined) throw new Error("An object could not be cloned: the port was transferred before");
    this.port = undefined;
    return port;
  }
}

export class MessageChannelMain {
  readonly port1: MessagePortMain;
  readonly port2: MessagePortMain;

  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.port1 = new MessagePortMain(port1);
    this.port2 = new MessagePortMain(port2);
  }
}

/** A port of the page. */
export class PagePort {
  private isClosed = false;

  constructor(private readonly port: NodePort) {}

  addEventListener(type: "message" | "close", listener: (event: { readonly data?: unknown }) => void): void {
    if (type === "message") this.port.addEventListener(type, listener as (event: unknown) => void);
    else
      this.port.on("close", () => {
        if (!this.isClosed) listener({});
      });
  }

  start(): void {
    this.port.start();
  }

  postMessage(message: unknown): void {
    this.port.postMessage(message);
  }

  close(): void {
    this.isClosed = true;
    this.port.close();
  }
}

export const ipcMain = new EventEmitter();

export const app = {
  /** The folder of the app; a test sets it. */
  userData: "",
  getPath: (name: "userData"): string => app[name],
  whenReady: (): Promise<void> => Promise.resolve(),
};

/** A window with its page; `window` of this process is the window of the page. */
export class BrowserWindow {
  /** The window that was made last. */
  static last: BrowserWindow | undefined;
  private readonly ipcRenderer = new EventEmitter();
  private readonly ports: PagePort[] = [];
  private url = "";

  constructor(private readonly options: { readonly webPreferences: { readonly preload: string } }) {
    BrowserWindow.last = this;
  }

  loadURL(url: string): Promise<void> {
    this.url = url;
    const preload = readPrograms().get(basename(this.options.webPreferences.preload));
    if (preload === undefined) throw new Error(`no such preload script: ${this.options.webPreferences.preload}`);
    const contextBridge = {
      exposeInMainWorld: (key: string, api: object) =>
        Object.defineProperty(window, key, { value: api, configurable: true }),
    };
    const { ipcRenderer } = this;
    const send = (channel: string, ...values: unknown[]): void => {
      const event = { senderFrame: { url: this.url, postMessage: this.post.bind(this) } };
      queueMicrotask(() => ipcMain.emit(channel, event, ...structuredClone(values)));
    };
    const modules = { electron: { contextBridge, ipcRenderer: Object.assign(ipcRenderer, { send }) } };
    const require = (id: "electron"): object => modules[id];
    // A preload script has a window object of its own, which shares messages with that of the page.
    const isolated = { postMessage: this.tell.bind(this) };
    // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call
    new Function("require", "window", preload)(require, isolated);
    return Promise.resolve();
  }

  /** Shows another page, whose scripts can use the same bridge. */
  navigate(url: string): void {
    this.close();
    this.url = url;
  }

  /** Ends the page, and its ports with it. */
  close(): void {
    for (const port of this.ports.splice(0)) port.close();
  }

  /** The message ports that the page got. */
  get pagePorts(): readonly PagePort[] {
    return this.ports;
  }

  private post(channel: string, message: unknown, transfer: readonly MessagePortMain[] = []): void {
    const ports = transfer.map((port) => new PagePort(port.release()));
    this.ports.push(...ports);
    this.ipcRenderer.emit(channel, { ports }, structuredClone(message));
  }

  private tell(data: unknown, _origin: string, ports: readonly PagePort[] = []): void {
    const event = Object.assign(new Event("message"), { data: structuredClone(data), ports, source: window });
    queueMicrotask(() => window.dispatchEvent(event));
  }
}
