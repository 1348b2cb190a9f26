/** How long an HTTP/2 connection, and a request on it, may take. */
import { once } from "node:events";
import { constants } from "node:http2";
import { createServer } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import type { InboundRequest, InboundResponse } from "../../../../src/gateway/message/inbound.ts";
import {
  Http2Sessions,
  type SessionLimits,
} from "../../../../src/gateway/listener/http2-sessions.ts";
import { FIRST } from "../../../support/listener-tls.ts";
import { backend } from "../stage.ts";
import { END_STREAM, frame, FRAME, requestLines, WireClient } from "./http2-wire.ts";
import { answerOf, connectHttp2, openSecureShop, PATIENT, send2 } from "./secure-stage.ts";

const { NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants;
const LONG_MS = 60_000;

interface Stage {
  readonly port: number;
  readonly sessions: Http2Sessions;
  readonly requests: InboundRequest[];
}

/** Answers each request once it is complete. */
async function stage(limits: Partial<SessionLimits>): Promise<Stage> {
  const requests: InboundRequest[] = [];
  const answer = (request: InboundRequest, response: InboundResponse): void => {
    requests.push(request);
    const end = (): void => {
      response.writeHead(200, ["content-length", "2"]);
      response.end("ok");
    };
    if (request.complete) end();
    else request.on("end", end);
    request.on("data", () => {});
  };
  const long = { headMs: LONG_MS, requestMs: LONG_MS, idleMs: LONG_MS };
  const sessions = new Http2Sessions(
    { handleRequest: answer, handleContinue: answer, work: { isPressed: false } },
    { headerBytes: 16_384, ...long, sweepMs: 10, ...limits },
  );
  const server = createServer({ ...FIRST, ALPNProtocols: ["h2"] });
  server.on("secureConnection", (socket) => sessions.accept(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    sessions.destroy();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { port, sessions, requests };
}

describe("a connection", () => {
  test("without a request is closed, and says so", async () => {
    const { port, sessions } = await stage({ headMs: 100 });
    const client = await WireClient.open(port);
    expect(await client.goaway()).toBe(NGHTTP2_NO_ERROR);
    await expect.poll(() => sessions.size, PATIENT).toBe(0);
  });

  test("that says nothing at all is closed", async () => {
    const { port, sessions } = await stage({ headMs: 100 });
    const client = await WireClient.open(port, true);
    await client.closed;
    await expect.poll(() => sessions.size, PATIENT).toBe(0);
  });

  test("is closed when it is idle, and not before", async () => {
    const { port } = await stage({ idleMs: 1_000 });
    const client = await WireClient.open(port);
    client.request(1, requestLines());
    expect(await client.outcome(1)).toBe("200");
    client.request(3, requestLines());
    expect(await client.outcome(3)).toBe("200");
    expect(await client.goaway()).toBe(NGHTTP2_NO_ERROR);
  });

  test("lives while a request is under way, however idle it is", async () => {
    const { port } = await stage({ idleMs: 10 });
    const client = await WireClient.open(port);
    client.request(1, requestLines("/free", { method: "POST" }), false);
    await new Promise((resolve) => void setTimeout(resolve, 200));
    client.send(frame(FRAME.data, END_STREAM, 1));
    expect(await client.outcome(1)).toBe("200");
  });
});

describe("a request", () => {
  test("that does not say whether it has a body is a 408, and its connection lives", async () => {
    const { port, requests } = await stage({ headMs: 200 });
    const session = await connectHttp2(port);
    const head = { ":method": "GET", ":path": "/", ":authority": "a" };
    const stream = session.request(head, { endStream: false });
    const { status, body, rstCode } = await answerOf(stream);
    expect({ status, rstCode }).toEqual({ status: 408, rstCode: NGHTTP2_NO_ERROR });
    expect(body.toString()).toContain("in time");
    expect(requests).toEqual([]);
    expect((await send2(session)).status).toBe(200);
  });

  test("whose body never ends is reset", async () => {
    const { port, requests, sessions } = await stage({ requestMs: 200 });
    const client = await WireClient.open(port);
    client.request(1, requestLines("/", { method: "POST" }), false);
    client.send(frame(FRAME.data, 0, 1, Buffer.from("half")));
    expect(await client.resetOf(1)).toBe(NGHTTP2_INTERNAL_ERROR);
    expect(requests[0]?.complete).toBe(false);
    expect(sessions.size).toBe(1);
  });

  test("whose body stalls at a gateway is a 408, alone on its connection", async () => {
    const origin = await backend((request, response) => {
      request.on("error", () => {});
      request.resume().once("end", () => response.end("hello"));
    });
    const { port } = await openSecureShop(origin, { bodyLimits: { idleMs: 300 } });
    const session = await connectHttp2(port);
    const head = { ":method": "POST", ":path": "/free", ":authority": "a" };
    const stream = session.request(head, { endStream: false });
    stream.write("half");
    const { status, rstCode } = await answerOf(stream);
    expect({ status, rstCode }).toEqual({ status: 408, rstCode: NGHTTP2_NO_ERROR });
    expect((await send2(session)).status).toBe(200);
  });

  test("leaves nothing behind", async () => {
    const { port, sessions, requests } = await stage({});
    const session = await connectHttp2(port);
    await Promise.all(Array.from({ length: 50 }, () => send2(session)));
    expect(requests.every(({ complete }) => complete)).toBe(true);
    session.close();
    await expect.poll(() => sessions.size, PATIENT).toBe(0);
  });
});
