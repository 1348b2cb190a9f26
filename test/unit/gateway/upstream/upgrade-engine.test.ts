import { IncomingMessage } from "node:http";
import { once } from "node:events";
import { connect, createServer, Socket, type AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { UNREAD_MS } from "../../../../src/gateway/message/unread.ts";
import {
  answerOn,
  asksForWebSocket,
  readUpgrade,
  UpgradeEngine,
} from "../../../../src/gateway/upstream/upgrade-engine.ts";
import { UpstreamHealth } from "../../../../src/gateway/upstream/upstream-health.ts";
import { defaultUpstreamOptions } from "../../../../src/gateway/upstream/upstream.ts";

const handshake: Readonly<Record<string, string>> = {
  Host: "a.example",
  Connection: "Upgrade",
  Upgrade: "websocket",
  "Sec-WebSocket-Version": "13",
  "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
};

function request(
  changes: Readonly<Record<string, string | null>>,
  method = "GET",
  version = "1.1",
) {
  const message = new IncomingMessage(new Socket());
  message.method = method;
  message.httpVersion = version;
  for (const [name, value] of Object.entries({ ...handshake, ...changes })) {
    if (value === null) continue;
    message.rawHeaders.push(name, value);
    message.headers[name.toLowerCase()] = value;
  }
  return message;
}

const nothing = Buffer.alloc(0);

describe("a handshake", () => {
  test("for WebSocket version 13 is taken", () => {
    expect(readUpgrade(request({}), nothing)).toEqual({ kind: "websocket" });
    expect(readUpgrade(request({ Upgrade: "WebSocket" }), nothing)).toEqual({ kind: "websocket" });
  });

  test.each<[string, Readonly<Record<string, string | null>>, string]>([
    ["h2c", { Upgrade: "h2c" }, "websocket"],
    ["a list", { Upgrade: "websocket, h2c" }, "websocket"],
    ["no protocol", { Upgrade: null }, "websocket"],
    ["another protocol", { Upgrade: "TLS/1.0" }, "websocket"],
    ["a body", { "Content-Length": "3" }, "no body"],
    ["chunks", { "Transfer-Encoding": "chunked" }, "Transfer-Encoding"],
    ["no key", { "Sec-WebSocket-Key": null }, "Key"],
    ["a short key", { "Sec-WebSocket-Key": "YQ==" }, "Key"],
    ["two keys", { "Sec-WebSocket-Key": `${"a".repeat(22)}==, ${"b".repeat(22)}==` }, "Key"],
  ])("with %s is refused", (_, changes, reason) => {
    const upgrade = readUpgrade(request(changes), nothing);
    expect(upgrade).toMatchObject({ kind: "refused", status: 400 });
    expect(upgrade).toMatchObject({ detail: expect.stringContaining(reason) });
  });

  test.each(["12", "8", "13, 12", "14", "0x0d", ""])(
    "for version %j is answered with 13",
    (version) => {
      expect(readUpgrade(request({ "Sec-WebSocket-Version": version }), nothing)).toMatchObject({
        kind: "refused",
        status: 426,
        lines: ["Upgrade", "websocket", "Sec-WebSocket-Version", "13"],
      });
    },
  );

  test.each(["POST", "HEAD", "CONNECT", "get"])("by %s is refused", (method) => {
    expect(readUpgrade(request({}, method), nothing)).toMatchObject({ kind: "refused" });
  });

  test("in HTTP/1.0 is refused", () => {
    expect(readUpgrade(request({}, "GET", "1.0"), nothing)).toMatchObject({ kind: "refused" });
  });

  test("with bytes behind it is refused", () => {
    const head = Buffer.from("GET /paid HTTP/1.1\r\n\r\n");
    expect(readUpgrade(request({}), head)).toMatchObject({ kind: "refused" });
  });

  test("for anything but WebSocket is a plain request that happens to carry an Upgrade", () => {
    expect(asksForWebSocket(request({ Upgrade: "h2c" }))).toBe(false);
    expect(asksForWebSocket(request({ Upgrade: null }))).toBe(false);
    expect(asksForWebSocket(request({}))).toBe(true);
  });
});

test("the client of an answer is ended when it takes nothing of it for too long", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
  const [socket] = (await once(server, "connection")) as [Socket];
  server.close();
  onTestFinished(() => {
    client.destroy();
    socket.destroy();
  });
  // So much is before it.
  socket.write(Buffer.alloc(32 * 1024 * 1024));
  answerOn(socket, { status: 402, lines: [], body: "{}" });
  expect(socket.timeout).toBe(UNREAD_MS);
  expect(socket.destroyed).toBe(false);
  socket.emit("timeout");
  expect(socket.destroyed).toBe(true);
});

describe("a tunnel that is reserved", () => {
  const SATURATED = { kind: "unanswered", reason: "saturated" };
  const address = "192.0.2.1";
  const open = (): UpgradeEngine => {
    const options = { ...defaultUpstreamOptions, origin: "http://127.0.0.1:9", upgrades: 1 };
    return new UpgradeEngine(options, new UpstreamHealth(() => performance.now()));
  };

  test("is let go of where another target is asked instead", () => {
    const [first, second] = [open(), open()];
    const socket = new Socket();
    expect(first.refusal({ socket, address })).toBeNull();
    expect(first.refusal({ socket: new Socket(), address })).toMatchObject(SATURATED);
    expect(second.refusal({ socket, address })).toBeNull();
    expect(first.refusal({ socket: new Socket(), address })).toBeNull();
  });

  test("is not had once the target is closed", async () => {
    const engine = open();
    const socket = new Socket();
    expect(engine.refusal({ socket, address })).toBeNull();
    await engine.close(AbortSignal.abort());
    expect(engine.refusal({ socket, address })).toMatchObject(SATURATED);
  });

  test("is none of a client that has left", () => {
    const engine = open();
    engine.refusal({ socket: new Socket().destroy(), address });
    expect(engine.refusal({ socket: new Socket(), address })).toBeNull();
  });
});
