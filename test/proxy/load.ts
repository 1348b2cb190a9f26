/** Load on a gateway: requests one after another on many connections, and clients that leave. */
import { connect, type Socket } from "node:net";
import { PATIENCE_MS } from "./client.ts";

const HEAD_END = "\r\n\r\n";

export interface Load {
  readonly port: number;
  readonly requests: number;
  readonly connections: number;
  /** A whole request. */
  readonly bytes: string;
}

/** Sends requests and counts their answers by status; a connection that ends is opened anew. */
export async function load(job: Load): Promise<ReadonlyMap<number, number>> {
  const statuses = new Map<number, number>();
  let left = job.requests;
  const serve = (): Promise<void> =>
    new Promise((resolve) => {
      if (left === 0) {
        resolve();
        return;
      }
      const { socket, next } = converse(job.port, job.bytes, (status) => {
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (left === 0) {
          socket.destroy();
          return;
        }
        left -= 1;
        next();
      });
      left -= 1;
      socket.once("close", () => void serve().then(resolve));
      next();
    });
  await Promise.all(Array.from({ length: job.connections }, serve));
  return statuses;
}

/** Calls back with the status of each answer; 0 for one that was cut off, or did not come in time. */
function converse(
  port: number,
  bytes: string,
  onAnswer: (status: number) => void,
): { readonly socket: Socket; readonly next: () => void } {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  let text = "";
  let isOwed = false;
  socket.setTimeout(PATIENCE_MS, () => socket.destroy());
  socket.setEncoding("latin1");
  socket.on("data", (chunk) => {
    text += chunk;
    const end = text.indexOf(HEAD_END);
    if (end === -1) return;
    const length = Number(/^content-length: *(\d+)/im.exec(text.slice(0, end))?.[1] ?? "0");
    const whole = end + HEAD_END.length + length;
    if (text.length < whole) return;
    const status = Number(text.slice(9, 12));
    text = text.slice(whole);
    isOwed = false;
    onAnswer(status);
  });
  socket.on("error", () => socket.destroy());
  socket.prependListener("close", () => {
    if (isOwed) onAnswer(0);
  });
  const next = (): void => {
    isOwed = true;
    if (!socket.destroyed) socket.write(bytes, "latin1");
  };
  return { socket, next };
}

/** In which state of their exchange clients leave. */
const LEAVING: readonly { readonly bytes: string; readonly waits: boolean }[] = [
  // Before the answer.
  { bytes: get("/hang"), waits: false },
  // In the middle of it.
  { bytes: get("/large"), waits: true },
  // In the middle of their own request: its body, a chunk of it, its head.
  {
    bytes: `POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n${"u".repeat(70_000)}`,
    waits: false,
  },
  {
    bytes: "POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nu",
    waits: false,
  },
  { bytes: "GET /small HTTP/1.1\r\nHost: a\r\nX-A", waits: false },
];
/** The longest that a client stays once it has sent what it sends, milliseconds. */
const STAYS_MS = 4;

export function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: backend.example\r\n\r\n`;
}

/** Clients that leave in every state, by an end and by a reset. */
export async function leave(port: number, clients: number, atOnce = 50): Promise<void> {
  let left = clients;
  const next = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await leaveOnce(port, left);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, next));
}

function leaveOnce(port: number, number: number): Promise<void> {
  const { bytes, waits } = LEAVING[number % LEAVING.length] ?? { bytes: "", waits: false };
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    const go = (): void => {
      if (number % 2 === 0) socket.resetAndDestroy();
      else socket.destroy();
    };
    socket.on("error", () => socket.destroy());
    socket.once("close", () => resolve());
    socket.once("connect", () => {
      socket.write(bytes.replaceAll("Host: a", "Host: backend.example"), "latin1");
      if (waits) socket.once("data", go);
      else setTimeout(go, number % (STAYS_MS + 1));
    });
  });
}

/** Reads an answer slowly, a little at a time, until `bytes` have come; then it leaves. */
export function readSlowly(port: number, bytes: number, everyMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" });
    let received = 0;
    socket.write(get("/large"));
    socket.on("error", reject);
    socket.once("close", () => {
      if (received >= bytes) resolve();
      else reject(new Error(`the answer ended after ${received} bytes`));
    });
    socket.on("data", (chunk) => {
      received += chunk.length;
      if (received >= bytes) {
        socket.destroy();
        return;
      }
      socket.pause();
      setTimeout(() => socket.resume(), everyMs);
    });
  });
}
