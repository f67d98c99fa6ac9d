/** Ways to carry frames to another process: anything that takes lines, and anything that takes messages. */
import { ProtocolError } from "./api-error.js";

/** Characters of one frame of the other side; what is longer closes the duplex. */
export const FRAME_CHARS_MAX = 8 * 1_048_576;

/** Carries frames both ways. A frame is a JSON text without a line break. */
export interface Duplex {
  /** Sends a frame. */
  send(frame: string): void;
  /** Says who takes what arrives; called once, before anything is sent. */
  listen(listener: DuplexListener): void;
  /** Lets go of the other side. */
  close(): void;
}

/** Who takes what a duplex brings. */
export interface DuplexListener {
  frame(frame: string): void;
  /** Nothing more will come; without an error the other side ended by itself. */
  closed(error?: Error): void;
}

/** What a child process gives: the streams of node, as far as they are needed. */
export interface ChildStreams {
  readonly stdin: {
    write(text: string): unknown;
    end(): unknown;
    on(event: "error", listener: (error: Error) => void): unknown;
  };
  readonly stdout: {
    on(event: "data", listener: (bytes: Uint8Array) => void): unknown;
    on(event: "end" | "close", listener: () => void): unknown;
    on(event: "error", listener: (error: Error) => void): unknown;
  };
}

/** Frames as lines on the standard streams of a child process. */
export function childDuplex({ stdin, stdout }: ChildStreams): Duplex {
  return {
    send: (frame) => {
      stdin.write(`${frame}\n`);
    },
    listen: (listener) => {
      const closed = once(listener);
      const lines = new Lines(listener.frame.bind(listener));
      stdout.on("data", (bytes) => {
        try {
          lines.add(bytes);
        } catch (error) {
          stdin.end();
          closed(error instanceof Error ? error : undefined);
        }
      });
      stdout.on("end", () => {
        closed();
      });
      stdout.on("close", () => {
        closed();
      });
      stdout.on("error", closed);
      // A child that is gone breaks the pipe; that it is gone is told by its output.
      stdin.on("error", () => undefined);
    },
    close: () => {
      stdin.end();
    },
  };
}

/** What a message port gives: one of the browser, of node, or a bridge of Electron. */
export interface MessagePortLike {
  postMessage(message: string): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: () => void): void;
  start?(): void;
  close(): void;
}

/** Frames as messages of a port, such as the one that Electron's main process bridges to a sidecar. */
export function portDuplex(port: MessagePortLike): Duplex {
  return {
    send: (frame) => {
      port.postMessage(frame);
    },
    listen: (listener) => {
      const closed = once(listener);
      port.addEventListener("message", ({ data }) => {
        if (typeof data === "string") listener.frame(data);
        else closed(new ProtocolError(`expected a frame as text, found ${typeof data}`));
      });
      port.addEventListener("close", () => {
        closed();
      });
      port.start?.();
    },
    close: () => {
      port.close();
    },
  };
}

function once(listener: DuplexListener): (error?: Error) => void {
  let isClosed = false;
  return (error) => {
    if (isClosed) return;
    isClosed = true;
    listener.closed(error);
  };
}

/** Lines out of bytes, wherever these are cut. */
class Lines {
  private readonly text = new TextDecoder("utf-8", { fatal: true });
  private parts: string[] = [];
  private chars = 0;

  constructor(private readonly emit: (line: string) => void) {}

  /** Throws ProtocolError if a line is too long or no UTF-8. */
  add(bytes: Uint8Array): void {
    const [first = "", ...rest] = this.decode(bytes).split("\n");
    this.keep(first);
    for (const piece of rest) {
      const line = this.parts.join("");
      this.parts = [];
      this.chars = 0;
      if (line.trim() !== "") this.emit(line);
      this.keep(piece);
    }
  }

  private decode(bytes: Uint8Array): string {
    try {
      return this.text.decode(bytes, { stream: true });
    } catch {
      throw new ProtocolError("a frame of the other side is not UTF-8");
    }
  }

  private keep(piece: string): void {
    this.chars += piece.length;
    if (this.chars > FRAME_CHARS_MAX) {
      throw new ProtocolError(`frame too long: limit ${FRAME_CHARS_MAX.toLocaleString("en-US")} characters`);
    }
    if (piece !== "") this.parts.push(piece);
  }
}
