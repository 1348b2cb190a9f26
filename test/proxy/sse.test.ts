/** Events arrive one by one: the backend sends the next one only once the client has the one before. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RECEIPT_HEADERS } from "../../src/x402/header.ts";
import { VERSIONS } from "../support/buyer.ts";
import { gone, type Turn } from "./backend.ts";
import { Fronts } from "./fronts.ts";
import { until, visit } from "./visit.ts";
import { chunked, valueOf, type Line } from "./wire.ts";

const fronts = new Fronts();
beforeAll(() => fronts.open());
afterAll(() => fronts.close());

const EVENTS = ["data: first\n\n", "id: 2\ndata: second\n\n", ": nothing, to keep it alive\n\n"];

/** How the backend frames them. */
const FRAMINGS = {
  chunks: {
    head: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    frame: (event: string) => chunked(Buffer.from(event)).subarray(0, -5).toString("latin1"),
  },
  "the end of the connection": {
    head: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
    frame: (event: string) => event,
  },
  "chunks, without a type": {
    head: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    frame: (event: string) => chunked(Buffer.from(event)).subarray(0, -5).toString("latin1"),
  },
};

let played = 0;

describe.each(Fronts.protocols)("over %s", (protocol) => {
  describe.each([undefined, ...VERSIONS])("paid in version %s", (version) => {
    const isPaid = version !== undefined;
    test.each(Object.keys(FRAMINGS) as (keyof typeof FRAMINGS)[])(
      "events framed by %s arrive one by one, the head before the first, and end as the client leaves",
      async (framing) => {
        const house = fronts.of(protocol);
        played += 1;
        const target = isPaid ? `/paid/events/${played}` : `/events/${played}`;
        const turn = Promise.withResolvers<Turn>();
        const { head, frame } = FRAMINGS[framing];
        house.backend.play(target, async (arrived) => {
          await arrived.whole;
          arrived.write(head);
          turn.resolve(arrived);
          await gone(arrived.socket);
        });
        const lines: Line[] = isPaid ? [await house.payment(target, version)] : [];
        const visiting = visit({ ...house.front, protocol }, { method: "GET", target, lines });
        visiting.reply.catch(() => undefined);
        const { lines: got } = await visiting.head;
        const receipts = VERSIONS.map((each) => valueOf(got, RECEIPT_HEADERS[each].toLowerCase()));
        expect(receipts.map(Boolean)).toEqual(VERSIONS.map((each) => each === version));
        const { write, socket } = await turn.promise;
        let expected = 0;
        for (const event of EVENTS) {
          write(frame(event));
          expected += event.length;
          // The next event waits for this one: whoever holds one back holds them all back.
          await until(() => visiting.received === expected);
        }
        visiting.abort();
        // What was sold and is not known to be events may be small enough to be kept for the buyer.
        if (!(isPaid && framing === "chunks, without a type")) await gone(socket);
        visiting.close();
      },
    );
  });
});
