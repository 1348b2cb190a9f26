/** The first record of a TLS connection, read before anybody answers it. */
import type { Duplex } from "node:stream";

/** It has to be complete within this, milliseconds. */
const HELLO_MS = 10_000;
/** Of a record's head: its kind, its version, its length. */
const HEAD_BYTES = 5;
/** RFC 8446 section 5.1. */
const MAX_RECORD_BYTES = 2 ** 14;
const HANDSHAKE = 22;

/**
 * Resolves with what has arrived once the first record is complete, or cannot become one; the socket then has all of
 * it again, for whoever reads it next. Undefined: it ended before.
 */
export function readHello(socket: Duplex): Promise<Buffer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  let arrived = Buffer.alloc(0);
  const end = (hello: Buffer | undefined): void => {
    clearTimeout(timer);
    socket.off("readable", read);
    socket.off("error", gone);
    socket.off("close", gone);
    resolve(hello);
  };
  const gone = (): void => end(undefined);
  const read = (): void => {
    for (let chunk: unknown = socket.read(); chunk !== null; chunk = socket.read()) {
      arrived = Buffer.concat([arrived, chunk as Buffer]);
    }
    if (arrived.length < wantedBytes(arrived)) return;
    socket.unshift(arrived);
    end(arrived);
  };
  const timer = setTimeout(() => socket.destroy(), HELLO_MS);
  socket.on("readable", read);
  socket.once("error", gone);
  socket.once("close", gone);
  return promise;
}

/** How much has to be there to know; none where it is no record of a handshake. */
function wantedBytes(arrived: Buffer): number {
  if (arrived.length < HEAD_BYTES) return HEAD_BYTES;
  const length = arrived.readUInt16BE(3);
  return arrived[0] === HANDSHAKE && length <= MAX_RECORD_BYTES ? HEAD_BYTES + length : 0;
}
