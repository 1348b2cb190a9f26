/**
 * Whether a client has read an answer, as far as its connection tells. Who leaves while his answer is on its way has
 * closed his end when it comes, and his kernel refuses it; whoever has read it closes in good order, or sends the next
 * request, which is seen to have come. A close that was under way when the answer was written reads like one in good
 * order, and only writing tells them apart: of no bytes at all.
 */
import { Socket } from "node:net";
import { notesOf, type InboundSocket } from "./inbound.ts";

/**
 * How long after an answer a reset of its connection says that it may not have been read, milliseconds: the kernel takes
 * some megabytes at once, which a slow client has not had for long.
 */
const RESET_WITHIN_MS = 30_000;
/** How soon a client that has broken off closes its connection in good order, milliseconds; others keep it a while. */
const CLOSED_WITHIN_MS = 1_000;
const NOTHING = new Uint8Array();

/** TLS writes nothing where it is given nothing: the connection that it runs on does. */
export function runsOn(secure: Socket, socket: Socket): void {
  notesOf(secure).beneath = socket;
}

/**
 * Tells once where the connection is reset soon, and before its client asks for anything else; or where it is closed in
 * good order at once, as by who has read all of it, or breaks off a download that waits in his own memory. Of HTTP/2
 * nothing says which of the connection's answers were read: nothing is told.
 */
export function onReset(socket: InboundSocket, listener: (how: "reset" | "closed") => void): void {
  if (!(socket instanceof Socket)) return;
  const notes = notesOf(socket);
  // The answer before this one has been read.
  notes.endWatch?.();
  const { bytesRead } = socket;
  const answeredAt = performance.now();
  const told = (how: "reset" | "closed"): void => {
    stop();
    if (socket.bytesRead === bytesRead) listener(how);
  };
  const reset = (): void => told("reset");
  const written = (error?: Error | null): void => {
    if (error) reset();
    else if (performance.now() - answeredAt < CLOSED_WITHIN_MS) told("closed");
  };
  const probe = (): void => void (notes.beneath ?? socket).write(NOTHING, written);
  const stop = (): void => {
    clearTimeout(watch);
    socket.off("error", reset);
    socket.off("end", probe);
    notes.endWatch = null;
  };
  const watch = setTimeout(stop, RESET_WITHIN_MS).unref();
  socket.once("error", reset);
  // Before node's own listener has closed our end.
  socket.prependOnceListener("end", probe);
  notes.endWatch = stop;
}
