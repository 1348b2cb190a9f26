/**
 * The backend behind every proxy: `/files/N` answers N KiB once the request is complete, and so does what is
 * sold, with 1 KiB; the streams of {@link EVENTS_PATH} and the download of {@link LARGE_PATH} are sold, too.
 */
import { createServer, type ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { serve } from "../process.ts";
import { EVENTS_PATH, LARGE_KIB, LARGE_PATH } from "./wares.ts";

/** A stream: a head, then so many events so far apart. */
const EVENTS = 10;
const EVENT_PAUSE_MS = 100;

const bodyOf = (kib: number): Buffer => Buffer.alloc(kib * 1024, "x");
const small = bodyOf(1);
const large = bodyOf(LARGE_KIB);
const bodies = new Map([
  ["/files/1", small],
  ["/files/64", bodyOf(64)],
  [`/files/${LARGE_KIB}`, large],
  [LARGE_PATH, large],
]);

const server = createServer((request, response) => {
  const { url = "" } = request;
  request.resume().on("end", () => {
    if (url === EVENTS_PATH) return void tellEvents(response);
    const body = bodies.get(url) ?? small;
    response.writeHead(200, {
      "Content-Type": "application/octet-stream",
      "Content-Length": body.length,
    });
    response.end(body);
  });
});

/** Each event says when it was written, in nanoseconds of the clock that all processes share. */
async function tellEvents(response: ServerResponse): Promise<void> {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  response.flushHeaders();
  for (let event = 0; event < EVENTS && !response.destroyed; event += 1) {
    await pause(EVENT_PAUSE_MS);
    response.write(`data: ${process.hrtime.bigint()}\n\n`);
  }
  response.end();
}

serve(server);
