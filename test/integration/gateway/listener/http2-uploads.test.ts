/** What clients of HTTP/2 learn that give an upload away before they read (`http2-lingering.ts`). */
import { once } from "node:events";
import { createServer } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { HeldConnection } from "../../../../src/gateway/listener/connection-table.ts";
import { Http2Sessions } from "../../../../src/gateway/listener/http2-sessions.ts";
import type { InboundRequest, InboundResponse } from "../../../../src/gateway/message/inbound.ts";
import { FIRST } from "../../../support/listener-tls.ts";
import { answerOf, connectHttp2, PATIENT, send2 } from "./secure-stage.ts";

const MIB = 1024 * 1024;
const LONG_MS = 60_000;
const PRICE = "a price";

/** A listener that asks each request for a price before it reads anything of it, and how far that has come. */
async function openStage(status = 402) {
  const finished: string[] = [];
  const connections: HeldConnection[] = [];
  const answer = (request: InboundRequest, response: InboundResponse): void => {
    response.once("finish", () => finished.push(request.url ?? ""));
    response.writeHead(status, ["Content-Length", String(PRICE.length)]);
    response.end(PRICE);
  };
  const sessions = new Http2Sessions(
    { handleRequest: answer, handleContinue: answer, work: { isPressed: false } },
    { headerBytes: 16_384, headMs: LONG_MS, requestMs: 100, idleMs: LONG_MS, sweepMs: 20 },
  );
  const server = createServer({ ...FIRST, ALPNProtocols: ["h2"] });
  server.on("secureConnection", (socket) => {
    const connection = new HeldConnection(socket, "192.0.2.0", 0);
    connections.push(connection);
    sessions.accept(socket, connection);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    sessions.destroy();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { session: await connectHttp2(port), finished, connections };
}

const declared = (bytes: number) => ({ method: "POST", headers: { "content-length": bytes } });

test.each([
  ["of 1 MiB", 1, 16],
  ["of 8 MiB", 8, 4],
  ["of 40 MiB", 40, 2],
])(
  "uploads %s that are given at once get their answers, on one connection",
  async (_, mib, times) => {
    const { session } = await openStage();
    const body = Buffer.alloc(mib * MIB, "u");
    for (let count = 0; count < times; count += 1) {
      const { status, body: told } = await send2(session, {
        ...declared(body.length),
        body: [body],
      });
      expect([count, status, told.toString()]).toEqual([count, 402, PRICE]);
    }
  },
);

test("while it is held an answer keeps nothing: its request is over, and its connection idle", async () => {
  const { session, finished, connections } = await openStage();
  const stream = session.request({ ":method": "POST", ":path": "/held", "content-length": MIB });
  let status: unknown;
  stream.on("response", (head) => ({ ":status": status } = head));
  stream.write(Buffer.alloc(1_000, "u"));
  await expect.poll(() => finished, PATIENT).toEqual(["/held"]);
  expect([connections.map(({ isIdle }) => isIdle), status]).toEqual([[true], undefined]);
  stream.end(Buffer.alloc(MIB - 1_000, "u"));
  expect(await answerOf(stream)).toMatchObject({ status: 402, rstCode: 0 });
});

test.each([
  ["is more than is read to its end", { "content-length": 64 * MIB + 1 }],
  ["waits to be asked for", { "content-length": MIB, expect: "100-continue" }],
  ["says no length", {}],
])("an upload that %s is answered before it comes", async (_, headers) => {
  const { session } = await openStage();
  const stream = session.request({ ":method": "POST", ":path": "/", ...headers });
  const { status, body } = await answerOf(stream);
  expect([status, body.toString()]).toEqual([402, PRICE]);
});

test("what is sold is told as it comes", async () => {
  const { session } = await openStage(200);
  const stream = session.request({ ":method": "POST", ":path": "/", "content-length": MIB });
  const { status } = await answerOf(stream);
  expect(status).toBe(200);
});
