/** Bodies that come in single bytes: each part would be an object of some hundred bytes as long as it waits. */
import { IncomingMessage } from "node:http";
import { constants } from "node:http2";
import { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { RequestBody } from "../../../src/gateway/message/request-body.ts";
import { MAX_UNREAD_PARTS, unreadParts } from "../../../src/gateway/message/unread-parts.ts";
import {
  END_HEADERS,
  END_STREAM,
  block,
  FRAME,
  frame,
  requestLines,
  WireClient,
} from "./listener/http2-wire.ts";
import { openSecureShop, openSessions } from "./listener/secure-stage.ts";
import { backend } from "./stage.ts";

const BYTE = Buffer.from("a");

/** The frames of a request whose body is so many single bytes. */
function inSingleBytes(count: number): readonly Buffer[] {
  const length = ["content-length", String(count)] as const;
  const lines = [...requestLines("/free", { method: "POST" }), length];
  const head = frame(FRAME.headers, END_HEADERS, 1, block(lines));
  const body = Array.from({ length: count }, (_, at) => {
    return frame(FRAME.data, at === count - 1 ? END_STREAM : 0, 1, BYTE);
  });
  return [head, ...body];
}

describe("a body in single bytes over HTTP/2", () => {
  test("that somebody reads comes whole", async () => {
    let received = 0;
    const origin = await backend((request, response) => {
      request.on("data", (part: Buffer) => (received += part.length));
      request.on("end", () => response.end("hello"));
    });
    const { port } = await openSecureShop(origin);
    const client = await WireClient.open(port);
    client.send(...inSingleBytes(5_000));
    expect(await client.outcome(1)).toBe("200");
    expect(received).toBe(5_000);
  });

  test("that nobody reads is cut", async () => {
    // Never answered, and its body never read.
    const port = await openSessions(() => undefined);
    const client = await WireClient.open(port);
    client.send(...inSingleBytes(MAX_UNREAD_PARTS + 10));
    expect(await client.resetOf(1)).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  });

  test("that nobody reads waits where it is of few parts", async () => {
    const port = await openSessions((request, response) => {
      request.once("end", () => {
        response.writeHead(204, []);
        response.end();
      });
      setImmediate(() => request.on("data", () => undefined));
    });
    const client = await WireClient.open(port);
    client.send(...inSingleBytes(MAX_UNREAD_PARTS - 10));
    expect(await client.outcome(1)).toBe("204");
  });
});

test("a body on its way to a backend that does not read asks for no more parts than that", () => {
  const source = new IncomingMessage(new Socket());
  const body = new RequestBody(source, 1_000_000, false);
  body.read(0);
  let sent = 0;
  for (; !source.isPaused() && sent < 10_000; sent += 1) source.emit("data", BYTE);
  expect(sent).toBe(MAX_UNREAD_PARTS + 1);
  expect(unreadParts(body)).toBe(sent);
  body.read();
  expect(source.isPaused()).toBe(false);
});
