/** Many requests at once on one HTTP/2 connection: a few are served in each turn of the event loop. */
import { constants } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { PER_TURN } from "../../../../src/gateway/turns.ts";
import {
  END_HEADERS,
  END_STREAM,
  block,
  FRAME,
  frame,
  requestLines,
  WireClient,
} from "./http2-wire.ts";
import { backend } from "../stage.ts";
import { openSecureShop, openSessions, PATIENT } from "./secure-stage.ts";

const STREAMS = 100;

/** A server that tells what it serves, by the turns of the event loop. */
async function stage() {
  const served = new Map<number, string[]>();
  let turn = 0;
  let next = setImmediate(function begin() {
    turn += 1;
    next = setImmediate(begin);
  });
  onTestFinished(() => clearImmediate(next));
  const port = await openSessions(({ url = "" }, response) => {
    const beside = served.get(turn) ?? [];
    served.set(turn, [...beside, url]);
    response.writeHead(204, []);
    response.end();
  });
  const all = (): readonly string[] => [...served.values()].flat();
  return { served, all, port, client: await WireClient.open(port) };
}

const asks = (count: number, first = 0): readonly Buffer[] =>
  Array.from({ length: count }, (_, index) => {
    const stream = 2 * (first + index) + 1;
    const lines = block(requestLines(`/${stream}`));
    return frame(FRAME.headers, END_HEADERS + END_STREAM, stream, lines);
  });

test("all are served, a few in each turn", async () => {
  const { served, all, client } = await stage();
  client.send(...asks(STREAMS));
  await expect.poll(() => all().length, PATIENT).toBe(STREAMS);
  expect(new Set(all()).size).toBe(STREAMS);
  const inOneTurn = Math.max(...[...served.values()].map(({ length }) => length));
  expect(inOneTurn).toBeLessThanOrEqual(PER_TURN);
});

test("those of a connection that has few are served before those of one that has many", async () => {
  const { all, port, client } = await stage();
  const buyer = await WireClient.open(port);
  client.send(...asks(STREAMS));
  buyer.send(...asks(1, STREAMS));
  await expect.poll(() => all().length, PATIENT).toBe(STREAMS + 1);
  // Behind those that began as they came, and perhaps the oldest of all.
  expect(all().indexOf(`/${2 * STREAMS + 1}`)).toBeLessThan(3 * PER_TURN);
});

test("those with a body are served as they come, and keep their trailers", async () => {
  const heard: string[] = [];
  const origin = await backend((request, response) => {
    request.resume().on("end", () => {
      heard.push(String(request.trailers["x-digest"]));
      response.end();
    });
  });
  const { port } = await openSecureShop(origin);
  const client = await WireClient.open(port);
  const head = block(requestLines("/free", { method: "POST" }));
  const trailers = block([["x-digest", "abc"]]);
  const frames = Array.from({ length: 40 }, (_, index) => [
    frame(FRAME.headers, END_HEADERS, 2 * index + 1, head),
    frame(FRAME.data, 0, 2 * index + 1, Buffer.from("body")),
    frame(FRAME.headers, END_HEADERS + END_STREAM, 2 * index + 1, trailers),
  ]);
  client.send(...frames.flat());
  await expect.poll(() => heard, PATIENT).toEqual(Array.from({ length: 40 }, () => "abc"));
});

test("what its client takes back while it waits is not served", async () => {
  const { all, client } = await stage();
  const back = Array.from({ length: 20 }, (_, index) => {
    const code = Buffer.alloc(4);
    code.writeUInt32BE(constants.NGHTTP2_CANCEL);
    return frame(FRAME.reset, 0, 2 * (STREAMS - 1 - index) + 1, code);
  });
  client.send(...asks(STREAMS), ...back);
  await expect.poll(() => all().length, PATIENT).toBe(STREAMS - back.length);
  client.send(...asks(1, STREAMS));
  await client.outcome(2 * STREAMS + 1);
  expect(all().length).toBe(STREAMS - back.length + 1);
});
