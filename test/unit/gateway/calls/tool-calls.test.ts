/** Calls as requests to a gateway that answers what the test says: whose they are, and what is held of their answers. */
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { SESSION_HEADER } from "../../../../src/x402/session.ts";
import { CallRequest } from "../../../../src/gateway/calls/call-request.ts";
import { heldCall } from "../../../../src/gateway/calls/tool-calls.ts";
import {
  HeldBytes,
  MAX_HELD_BYTES,
  MAX_HELD_BYTES_OF_ALL,
} from "../../../../src/gateway/held-response.ts";
import type { InboundRequest, InboundResponse } from "../../../../src/gateway/message/inbound.ts";

const socket = {
  remoteAddress: "192.0.2.7",
  destroyed: false,
  bytesRead: 0,
  writableLength: 0,
  setTimeout: () => {},
  resetAndDestroy: () => {},
  destroy: () => {},
};

function message(rawHeaders: string[]): InboundRequest {
  const own = { method: "POST", url: "/mcp", httpVersion: "1.1", httpVersionMajor: 1 };
  const head = { ...own, httpVersionMinor: 1, rawHeaders, headers: {}, rawTrailers: [] };
  return Object.assign(new Readable({ read: () => {} }), head, { complete: true, socket });
}

const asked = { method: "GET", target: "/a?b=1", headers: ["Accept", "*/*"], body: null };
const never = new AbortController().signal;

it("comes from the message's own client, with what says who that is and nothing else of it", () => {
  const raw = ["Host", "shop.example", "X-Forwarded-For", "198.51.100.1", "User-Agent", "agent"];
  const more = [
    SESSION_HEADER,
    "token",
    "Authorization",
    "Bearer x",
    "Cookie",
    "a=b",
    "Origin",
    "x",
  ];
  const money = ["Payment-Signature", "paid", "X-Payment", "paid", "Content-Length", "7"];
  const request = new CallRequest(message([...raw, ...more, ...money]), asked);
  expect(request.rawHeaders).toEqual([...raw, SESSION_HEADER, "token", "Accept", "*/*"]);
  expect(request.headers).toMatchObject({ host: "shop.example", accept: "*/*" });
  expect([request.method, request.url]).toEqual(["GET", "/a?b=1"]);
  expect(request.socket.remoteAddress).toBe("192.0.2.7");
  expect(request.socket.beneath).toBe(socket);
});

it("ends with nothing of its message's connection", () => {
  const request = new CallRequest(message([]), asked);
  request.socket.destroy();
  expect(request.socket.destroyed).toBe(true);
  expect(socket.destroyed).toBe(false);
});

it("has its body whole, as any other", async () => {
  const body = Buffer.from("body");
  const request = new CallRequest(message([]), { ...asked, method: "POST", body });
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  await new Promise((resolve) => void request.on("end", resolve));
  expect(Buffer.concat(parts)).toEqual(body);
  expect(request.complete).toBe(true);
});

it("holds what all answers together may take, and gives that back with each", async () => {
  const held = new HeldBytes();
  const open: InboundResponse[] = [];
  const most = MAX_HELD_BYTES_OF_ALL / MAX_HELD_BYTES;
  const begun = (_: InboundRequest, response: InboundResponse): void => {
    response.writeHead(200, ["Content-Type", "text/plain"]);
    response.write(Buffer.alloc(MAX_HELD_BYTES));
    open.push(response);
  };
  const ask = () =>
    heldCall({ request: new CallRequest(message([]), asked), held, signal: never }, begun);
  const calls = Array.from({ length: most + 1 }, ask);
  expect(await calls.at(-1)).toMatchObject({ kind: "not-held", why: "crowded" });
  for (const response of open) response.end();
  const answered = await Promise.all(calls.slice(0, -1));
  expect(answered.every(({ kind }) => kind === "answered")).toBe(true);
  expect(held.taken).toBe(0);
});

it("is over when its client leaves", async () => {
  const leaving = new AbortController();
  const held = new HeldBytes();
  const call = heldCall(
    { request: new CallRequest(message([]), asked), held, signal: leaving.signal },
    (_, response) => {
      response.writeHead(200, []);
      response.write(Buffer.from("begun"));
      leaving.abort();
    },
  );
  expect(await call).toMatchObject({ kind: "not-held", why: null });
  expect(held.taken).toBe(0);
});
