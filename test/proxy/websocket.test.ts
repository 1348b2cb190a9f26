/** WebSockets through the gateway: the tunnel's bytes are compared as they are, frames and all. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { RECEIPT_HEADERS } from "../../src/x402/header.ts";
import { VERSIONS } from "../support/buyer.ts";
import { gone, type Turn } from "./backend.ts";
import { Client, openSocket, PATIENCE_MS, type Place } from "./client.ts";
import { OVER_HTTP1 } from "./case.ts";
import { Fronts } from "./fronts.ts";
import type { House } from "./house.ts";
import { carry, frame, handshake, openTunnel, switching } from "./tunnel.ts";
import { contentOfParts, parts, standstill, until } from "./visit.ts";
import { ContentMeter, headText, valueOf, type Line } from "./wire.ts";

const MIB = 1024 * 1024;
const LARGE = 100 * MIB;
/** Linux lets the buffers of two connections grow up to 2 × (32 + 4) MiB; the gateway holds almost nothing. */
const HELD_AT_MOST = 80 * MIB;

const fronts = new Fronts();
beforeAll(() => fronts.open());
afterAll(() => fronts.close());

let played = 0;

const protocols = Fronts.protocols.filter((each) => OVER_HTTP1.includes(each));

describe.each(protocols)("over %s", (protocol) => {
  const house = (): House => fronts.of(protocol);
  const front = (): Place => house().front;

  test.each([undefined, ...VERSIONS])(
    "frames of every kind cross both ways, byte for byte (paid in version %s)",
    async (version) => {
      const tunnel = await openTunnel(house(), front(), { version });
      const { client, backend } = tunnel;
      const receipts = VERSIONS.map((each) => tunnel.head.includes(`\n${RECEIPT_HEADERS[each]}: `));
      expect(receipts).toEqual(VERSIONS.map((each) => each === version));
      for (const isMasked of [true, false]) {
        const [from, to] = isMasked ? [client, backend] : [backend, client];
        const parts = [
          frame(randomBytes(MIB), { opcode: 2, isMasked }),
          // A message in three frames, with a ping between them (RFC 6455 section 5.4).
          frame(Buffer.from("a fragm"), { opcode: 1, fin: false, isMasked }),
          frame(Buffer.from("are you there"), { opcode: 9, isMasked }),
          frame(Buffer.from("ented "), { opcode: 0, fin: false, isMasked }),
          frame(Buffer.from("text"), { opcode: 0, isMasked }),
          frame(Buffer.from("I am"), { opcode: 10, isMasked }),
          frame(Buffer.alloc(0), { opcode: 2, isMasked }),
          frame(Buffer.from([0x0f, 0xa1, 0x62, 0x79, 0x65]), { opcode: 8, isMasked }),
        ];
        for (const part of parts) await carry(part, from, to);
        await carry(Buffer.concat(parts), from, to);
      }
      tunnel.close();
    },
  );

  test("both sides may send much at once", async () => {
    const tunnel = await openTunnel(house(), front());
    const { client, backend } = tunnel;
    await Promise.all([
      carry(randomBytes(8 * MIB), client, backend),
      carry(randomBytes(8 * MIB), backend, client),
    ]);
    tunnel.close();
  });

  test("what the backend sends right behind its 101 is not lost", async () => {
    played += 1;
    const target = `/socket/${played}`;
    house().backend.play(target, (turn) => {
      turn.takeOver();
      const key = valueOf(turn.head.lines, "sec-websocket-key") ?? "";
      turn.write(
        Buffer.concat([Buffer.from(switching(key)), frame(Buffer.from("hi"), { opcode: 1 })]),
      );
    });
    const client = openSocket(front());
    client.write(handshake(target));
    let text = "";
    while (!text.endsWith("hi")) {
      const [chunk] = await once(client, "data");
      text += chunk.toString("latin1");
    }
    client.destroy();
  });

  test("negotiated lines cross, in both directions", async () => {
    const asked: Line[] = [
      ["Sec-WebSocket-Protocol", "chat.v2, chat.v1"],
      ["Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"],
      ["Origin", "https://app.example"],
      ["Cookie", "a=1"],
    ];
    const told: Line[] = [
      ["Sec-WebSocket-Protocol", "chat.v1"],
      ["Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover"],
      ["Set-Cookie", "b=2"],
      ["Set-Cookie", "c=3"],
    ];
    played += 1;
    const target = `/socket/${played}`;
    const seen = house().backend.play(target, async (turn) => {
      await turn.whole;
      turn.takeOver();
      turn.write(switching(valueOf(turn.head.lines, "sec-websocket-key") ?? "", told));
    });
    const client = openSocket(front());
    client.write(handshake(target, asked));
    const [chunk] = await once(client, "data");
    const head = chunk.toString("latin1");
    for (const [name, value] of told) expect(head).toContain(`${name}: ${value}\r\n`);
    for (const [name, value] of asked) {
      expect(seen.requests[0]?.lines).toContainEqual([name, value]);
    }
    client.destroy();
  });

  test("a refusal of the backend arrives with its body", async () => {
    played += 1;
    const target = `/socket/${played}`;
    house().backend.play(target, async ({ whole, write }) => {
      await whole;
      write("HTTP/1.1 403 Forbidden\r\nX-Why: members\r\nContent-Length: 12\r\n\r\nmembers only");
    });
    const client = new Client(front());
    const reply = client.expect("GET");
    client.socket.write(handshake(target));
    const { startLine, lines, content } = await reply;
    expect(startLine).toBe("HTTP/1.1 403 Forbidden");
    expect(lines).toContainEqual(["X-Why", "members"]);
    expect(content.start.toString()).toBe("members only");
    client.close();
  });

  test.each(["ends", "is reset"])(
    "a client whose connection %s before its answer cancels the handshake",
    async (how) => {
      played += 1;
      const target = `/socket/${played}`;
      const arrived = Promise.withResolvers<Turn>();
      house().backend.play(target, (turn) => arrived.resolve(turn));
      const client = openSocket(front());
      client.write(handshake(target));
      const { socket } = await arrived.promise;
      if (how === "is reset" && protocol === "HTTP/1.1") client.resetAndDestroy();
      else client.destroy();
      await gone(socket);
    },
  );

  test.each(["client", "backend"] as const)(
    "when the %s dies, the other side sees its end",
    async (who) => {
      const tunnel = await openTunnel(house(), front());
      const other = who === "client" ? tunnel.backend : tunnel.client;
      const closed = once(other, "close");
      other.on("end", () => other.end());
      other.resume();
      if (who === "client" && protocol === "HTTP/1.1") tunnel.client.resetAndDestroy();
      else tunnel[who].destroy();
      await closed;
    },
  );

  test.each(["client", "backend"] as const)(
    "a %s that does not read stops the other side, and misses nothing",
    async (who) => {
      const tunnel = await openTunnel(house(), front());
      const [from, to] =
        who === "client" ? [tunnel.backend, tunnel.client] : [tunnel.client, tunnel.backend];
      to.pause();
      const before = from.bytesWritten;
      const sent = (): number => from.bytesWritten - from.writableLength - before;
      const sending = (async () => {
        for (const part of parts(LARGE)) if (!from.write(part)) await once(from, "drain");
      })();
      expect(await standstill(sent)).toBeLessThan(HELD_AT_MOST);
      const meter = new ContentMeter();
      to.on("data", (chunk: Buffer) => meter.take(chunk));
      to.resume();
      await sending;
      await until(() => meter.length === LARGE);
      expect(meter.finish().hash).toBe(contentOfParts(LARGE).hash);
      tunnel.close();
    },
  );
});

/** What a program sees of a conversation. */
interface Talk {
  readonly protocol: string;
  readonly extensions: string;
  readonly echoed: readonly (readonly [length: number, isBinary: boolean, hash: string])[];
  readonly pong: string;
  readonly closed: readonly [code: number, reason: string];
}

/** What an event brings; rejects when it does not come. */
async function next<Facts extends unknown[]>(socket: WebSocket, event: string): Promise<Facts> {
  return (await once(socket, event, { signal: AbortSignal.timeout(PATIENCE_MS) })) as Facts;
}

async function talk(url: string, headers: Record<string, string>): Promise<Talk> {
  const socket = new WebSocket(url, ["b", "a"], {
    headers,
    rejectUnauthorized: false,
  });
  await next(socket, "open");
  const echoed: [number, boolean, string][] = [];
  const messages: [Buffer, boolean][] = [
    [Buffer.alloc(MIB, "mebibyte"), true],
    [Buffer.from("text, żółw"), false],
    [Buffer.alloc(0), true],
  ];
  for (const [payload, binary] of messages) {
    socket.send(payload, { binary });
    const [data, isBinary] = await next<[Buffer, boolean]>(socket, "message");
    echoed.push([data.length, isBinary, createHash("sha256").update(data).digest("hex")]);
  }
  socket.send("in ", { fin: false });
  socket.send("parts", { fin: true });
  const [data] = await next<[Buffer]>(socket, "message");
  echoed.push([data.length, false, data.toString()]);
  socket.ping("there?");
  const [pong] = await next<[Buffer]>(socket, "pong");
  socket.send("please close");
  const [code, reason] = await next<[number, Buffer]>(socket, "close");
  const { protocol, extensions } = socket;
  return {
    protocol,
    extensions,
    echoed,
    pong: pong.toString(),
    closed: [code, reason.toString()],
  };
}

describe("the library that most programs use", () => {
  test.each(protocols)(
    "talks over %s as it does without a gateway, free and paid",
    async (protocol) => {
      const server = createServer();
      const sockets = new WebSocketServer({
        server,
        perMessageDeflate: true,
        handleProtocols: (offered) => (offered.has("a") ? "a" : false),
      });
      sockets.on("connection", (socket) => {
        socket.on("message", (data: Buffer, isBinary) => {
          if (data.toString() === "please close") socket.close(4001, "as you wish");
          else socket.send(data, { binary: isBinary });
        });
      });
      await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const house = fronts.of(protocol);
      // The house's own backend hands the connection on to the library's.
      for (const target of ["/talk", "/paid/talk"]) house.backend.play(target, relayTo(port));
      const scheme = house.front.isTls === true ? "wss" : "ws";
      const base = `${scheme}://127.0.0.1:${house.front.port}`;
      const direct = await talk(`ws://127.0.0.1:${port}/talk`, {});
      expect(direct.closed).toEqual([4001, "as you wish"]);
      expect(direct.extensions).toBe("permessage-deflate");
      expect(await talk(`${base}/talk`, {})).toEqual(direct);
      for (const version of VERSIONS) {
        const [name, value] = await house.payment("/paid/talk", version);
        expect(await talk(`${base}/paid/talk`, { [name]: value })).toEqual(direct);
      }
      server.close();
      server.closeAllConnections();
    },
  );
});

/** Hands the connection on to another backend. */
function relayTo(port: number): (turn: Turn) => void {
  return ({ head, takeOver }) => {
    const inward = takeOver();
    const outward = openSocket({ port });
    outward.write(headText(head.startLine, head.lines));
    inward.pipe(outward).pipe(inward);
  };
}
