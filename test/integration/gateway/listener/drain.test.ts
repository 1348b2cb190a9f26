/** How a listener with TLS ends: with every request answered that it has taken, in the time that it is given. */
import { constants, type ClientHttp2Session } from "node:http2";
import { connect as connectTcp } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { backend } from "../stage.ts";
import {
  answerOf,
  begin,
  connectHttp2,
  openSecureShop,
  send1,
  send2,
  PATIENT,
} from "./secure-stage.ts";

const { NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

function held(): { readonly origin: Promise<string>; readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const origin = backend((request, response) => {
    if (request.url === "/free") return void response.end("now");
    response.write("part ");
    void promise.then(() => response.end("rest"));
  });
  return { origin, release: resolve };
}

function goneAway(session: ClientHttp2Session): Promise<number> {
  return new Promise((resolve) => void session.once("goaway", (code) => resolve(code)));
}

describe("a drain", () => {
  test("says so, lets what runs finish, and ends", async () => {
    const { origin, release } = held();
    const { port, listener } = await openSecureShop(await origin);
    const busy = await connectHttp2(port);
    const idle = await connectHttp2(port);
    expect((await send2(idle)).status).toBe(200);
    const stream = begin(busy, { path: "/free/slow" });
    const answer = answerOf(stream);
    await new Promise<void>((resolve) => void stream.once("data", () => resolve()));
    const told = [goneAway(busy), goneAway(idle)];
    const drained = listener.drain(new AbortController().signal);
    expect(await Promise.all(told)).toEqual([NGHTTP2_NO_ERROR, NGHTTP2_NO_ERROR]);
    release();
    expect(await answer).toMatchObject({ status: 200, rstCode: NGHTTP2_NO_ERROR });
    expect((await answer).body.toString()).toBe("part rest");
    await drained;
    await expect(send1(port)).rejects.toThrow();
  });

  test("that has no more time cuts what runs, with an error", async () => {
    const { origin } = held();
    const { port, listener } = await openSecureShop(await origin);
    const session = await connectHttp2(port);
    const stream = begin(session, { path: "/free/slow" });
    const answer = answerOf(stream);
    await new Promise<void>((resolve) => void stream.once("data", () => resolve()));
    const patience = new AbortController();
    const drained = listener.drain(patience.signal);
    patience.abort();
    await drained;
    expect((await answer).rstCode).not.toBe(NGHTTP2_NO_ERROR);
  });

  test("does not wait for a handshake that never ends, once it has no more time", async () => {
    const { origin } = held();
    const { port, listener } = await openSecureShop(await origin);
    const silent = connectTcp(port, "127.0.0.1");
    onTestFinished(() => void silent.destroy());
    silent.on("error", () => {});
    await new Promise<void>((resolve) => void silent.once("connect", () => resolve()));
    const closed = new Promise<void>((resolve) => void silent.once("close", () => resolve()));
    await listener.drain(AbortSignal.timeout(100));
    await closed;
  });

  test("loses no request: each is answered, or refused so that it can be sent elsewhere", async () => {
    const { origin } = held();
    const { port, listener } = await openSecureShop(await origin);
    let answered = 0;
    let refused = 0;
    const ask = async (): Promise<void> => {
      const session = await connectHttp2(port);
      for (;;) {
        if (session.closed || session.destroyed) return;
        const stream = begin(session);
        const outcome = await answerOf(stream).catch(() => null);
        if (outcome === null) {
          expect([NGHTTP2_REFUSED_STREAM, NGHTTP2_NO_ERROR]).toContain(stream.rstCode);
          refused += 1;
          return;
        }
        expect(outcome).toMatchObject({ status: 200, rstCode: NGHTTP2_NO_ERROR });
        answered += 1;
      }
    };
    const asking = Array.from({ length: 20 }, ask);
    await expect.poll(() => answered > 200, PATIENT).toBe(true);
    await listener.drain(AbortSignal.timeout(10_000));
    await Promise.all(asking);
    expect(refused).toBeLessThanOrEqual(20);
  });
});

describe("a listener that retires", () => {
  test("serves each connection once more, and says that it ends", async () => {
    const retiring = new AbortController();
    const { origin } = held();
    const listener = { retiring: retiring.signal };
    const { port } = await openSecureShop(await origin, { listener });
    const old = await connectHttp2(port);
    expect((await send2(old)).status).toBe(200);
    const told = goneAway(old);
    retiring.abort();
    expect(await told).toBe(NGHTTP2_NO_ERROR);
    const young = await connectHttp2(port);
    const youngTold = goneAway(young);
    expect((await send2(young)).status).toBe(200);
    expect(await youngTold).toBe(NGHTTP2_NO_ERROR);
    const { status, headers } = await send1(port);
    expect({ status, connection: headers.connection }).toEqual({
      status: 200,
      connection: "close",
    });
  });
});
