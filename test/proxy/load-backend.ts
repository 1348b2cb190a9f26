/**
 * A backend under load, as a process of its own. By path: `/small` answers 1 KiB; `/hang` never answers;
 * `/large` sends 1 GiB as fast as it is taken; `/race` is `/small` on a connection that is closed a moment
 * later, which is when the gateway is about to use it again; `/events`, priced or not, sends one event that
 * tells when it was sent; `/upload`, priced or not, tells how many bytes
 * came, once they have.
 */
import { createServer, type Socket } from "node:net";

const SMALL_BYTES = 1024;
const LARGE_BYTES = 1024 ** 3;
const SMALL = `HTTP/1.1 200 OK\r\nContent-Length: ${SMALL_BYTES}\r\n\r\n${"s".repeat(SMALL_BYTES)}`;
const EVENTS_HEAD =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const BLOCK = Buffer.alloc(64 * 1024, "l");
/** Of so many answers on `/race`, one is followed by the end of its connection. */
const CLOSES_ONE_IN = 5;
/** Of so many requests on a used connection, one is met with its end. */
const CROSSES_ONE_IN = 50;
/** The latest that it follows, milliseconds. */
const CLOSES_WITHIN_MS = 3;

/** Requests that came on a connection that had been closed already. */
let raced = 0;
let state = 1;

/** The same numbers each time. */
function random(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
  let rest = Buffer.alloc(0);
  let body = 0;
  /** Bytes of the upload that comes. */
  let uploading: number | null = null;
  let hasEnded = false;
  const close = (): void => void (random() > 0.5 ? socket.resetAndDestroy() : socket.end());
  let answered = 0;
  const answer = (path: string): void => {
    if (path.startsWith("/hang")) return;
    // What the gateway sees when its request crosses the end of the connection, made certain.
    if (path.startsWith("/race") && answered > 0 && random() * CROSSES_ONE_IN < 1) {
      raced += 1;
      close();
      return;
    }
    answered += 1;
    if (path.startsWith("/large")) {
      void pump(socket);
      return;
    }
    if (path.endsWith("/events")) {
      socket.write(EVENTS_HEAD);
      const event = `data: ${process.hrtime.bigint()}\n\n`;
      socket.write(`${event.length.toString(16)}\r\n${event}\r\n`);
      return;
    }
    if (path.endsWith("/upload")) {
      uploading = body;
      return;
    }
    socket.write(SMALL);
    if (!path.startsWith("/race") || random() * CLOSES_ONE_IN > 1) return;
    hasEnded = true;
    const ms = Math.floor(random() * (CLOSES_WITHIN_MS + 1));
    if (ms === 0) setImmediate(close);
    else setTimeout(close, ms);
  };
  socket.on("data", (chunk) => {
    if (socket.writableEnded) {
      raced += 1;
      socket.destroy();
      return;
    }
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const taken = Math.min(body, rest.length);
      body -= taken;
      rest = rest.subarray(taken);
      if (body === 0 && uploading !== null) {
        const told = JSON.stringify({ bytes: uploading });
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${told.length}\r\n\r\n${told}`);
        uploading = null;
      }
      const end = rest.indexOf("\r\n\r\n");
      if (body > 0 || end === -1) return;
      const head = rest.toString("latin1", 0, end);
      rest = rest.subarray(end + 4);
      body = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? "0");
      answer(head.split(" ")[1] ?? "");
    }
  });
  socket.on("error", () => {
    if (hasEnded) raced += 1;
    socket.destroy();
  });
  socket.on("end", () => socket.end());
});

async function pump(socket: Socket): Promise<void> {
  const closed = new Promise((resolve) => {
    socket.once("close", resolve);
  });
  socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${LARGE_BYTES}\r\n\r\n`);
  for (let sent = 0; sent < LARGE_BYTES && !socket.destroyed; sent += BLOCK.length) {
    if (!socket.write(BLOCK)) await Promise.race([drained(socket), closed]);
  }
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("drain", resolve);
  });
}

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.send?.(typeof address === "object" ? address?.port : 0);
});
process.on("message", () => process.send?.(raced));
process.on("disconnect", () => process.exit());
