/** The TLS side of a listener: what is agreed on, what is refused, and HTTP/1.1 behind it. */
import { createServer } from "node:http";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { backend } from "../stage.ts";
import { openSecureShop, send1 } from "./secure-stage.ts";

const HELLO = (url = "") => `hello ${url}`;

function greeting(): Promise<string> {
  return backend((request, response) => void response.end(HELLO(request.url)));
}

interface Agreed {
  readonly socket: TLSSocket;
  readonly protocol: string | null;
  readonly alpn: string | false | null;
  readonly isReused: boolean;
}

async function handshake(port: number, options: ConnectionOptions = {}): Promise<Agreed> {
  const socket = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options });
  onTestFinished(() => void socket.destroy());
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve).once("error", reject);
  });
  socket.on("error", () => {});
  const isReused = socket.isSessionReused();
  return { socket, protocol: socket.getProtocol(), alpn: socket.alpnProtocol, isReused };
}

/** Everything that comes until the connection ends. */
function rest(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  return new Promise((resolve) => void socket.once("close", () => resolve(text)));
}

describe("a handshake", () => {
  test.each<[string, ConnectionOptions, string, string | false]>([
    ["HTTP/2 with who knows it", { ALPNProtocols: ["h2", "http/1.1"] }, "TLSv1.3", "h2"],
    [
      "HTTP/1.1 with who prefers it and knows no other",
      { ALPNProtocols: ["http/1.1"] },
      "TLSv1.3",
      "http/1.1",
    ],
    ["HTTP/1.1 with who says nothing", {}, "TLSv1.3", false],
    ["HTTP/2 over TLS 1.2", { ALPNProtocols: ["h2"], maxVersion: "TLSv1.2" }, "TLSv1.2", "h2"],
  ])("agrees on %s", async (_name, options, version, alpn) => {
    const { port } = await openSecureShop(await greeting());
    const agreed = await handshake(port, options);
    expect(agreed).toMatchObject({ protocol: version, alpn });
    if (alpn === "h2") return;
    agreed.socket.write("GET /free HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect(await rest(agreed.socket)).toMatch(/^HTTP\/1.1 200 [^]*hello \/free$/);
  });

  test.each<[string, ConnectionOptions]>([
    ["TLS 1.1", { minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" }],
    ["a cipher without forward secrecy", { maxVersion: "TLSv1.2", ciphers: "AES128-GCM-SHA256" }],
    [
      "a cipher without authentication of what it hides",
      { maxVersion: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES128-SHA256" },
    ],
    ["another protocol", { ALPNProtocols: ["spdy/3"] }],
  ])("with %s is refused, and nobody else is harmed", async (_name, options) => {
    const { port } = await openSecureShop(await greeting());
    await expect(handshake(port, options)).rejects.toThrow();
    expect((await send1(port)).status).toBe(200);
  });

  test("is taken up again by a ticket, over both protocols", async () => {
    const { port } = await openSecureShop(await greeting());
    for (const ALPNProtocols of [["h2"], ["http/1.1"]]) {
      const first = await handshake(port, { ALPNProtocols });
      const session = await new Promise<Buffer>((resolve) => {
        first.socket.once("session", resolve);
        if (ALPNProtocols[0] !== "h2") first.socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
      });
      expect((await handshake(port, { ALPNProtocols, session })).isReused).toBe(true);
    }
  });

  test("is not needed for who speaks in the clear or says nothing: no answer, no harm", async () => {
    const { port } = await openSecureShop(await greeting());
    const clear = connectTcp(port, "127.0.0.1");
    clear.write("GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await rest(clear)).not.toContain("HTTP/1.1");
    const silent = connectTcp(port, "127.0.0.1");
    onTestFinished(() => void silent.destroy());
    expect((await send1(port)).status).toBe(200);
  });
});

function statuses(answers: string): readonly string[] | null {
  return answers.match(/HTTP\/1\.1 \d+/g);
}

describe("HTTP/1.1 behind TLS", () => {
  test("is served in turn, kept alive, and judged as in the clear", async () => {
    const { port, shop } = await openSecureShop(await greeting());
    const lines = "Host: shop.example\r\n";
    const text = [
      `GET /free/1 HTTP/1.1\r\n${lines}\r\n`,
      `GET /free/2 HTTP/1.1\r\n${lines}\r\n`,
      `GET /priced HTTP/1.1\r\n${lines}\r\n`,
      `GET /free/../x HTTP/1.1\r\n${lines}\r\n`,
    ].join("");
    const { socket } = await handshake(port);
    socket.write(text);
    const secure = await rest(socket);
    const plain = connectTcp(shop.port, "127.0.0.1");
    plain.write(text);
    expect(statuses(secure)).toEqual([
      "HTTP/1.1 200",
      "HTTP/1.1 200",
      "HTTP/1.1 402",
      "HTTP/1.1 400",
    ]);
    expect(statuses(await rest(plain))).toEqual(statuses(secure));
  });

  test("switches to a WebSocket where it is free, and asks for payment where it is not", async () => {
    const sockets = new WebSocketServer({ noServer: true });
    onTestFinished(() => sockets.close());
    sockets.on("connection", (socket) => socket.on("message", () => socket.send("text")));
    const server = createServer();
    server.on("upgrade", (request, socket, head) => {
      sockets.handleUpgrade(request, socket, head, (each) => sockets.emit("connection", each));
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const address = server.address();
    const place = typeof address === "object" && address !== null ? address.port : 0;
    const { port } = await openSecureShop(`http://127.0.0.1:${place}`);
    const client = new WebSocket(`wss://127.0.0.1:${port}/free`, { rejectUnauthorized: false });
    onTestFinished(() => client.terminate());
    const echo = new Promise(
      (resolve) => void client.once("message", (data, isBinary) => resolve(isBinary)),
    );
    client.once("open", () => client.send("hello"));
    expect(await echo).toBe(false);
    const unpaid = new WebSocket(`wss://127.0.0.1:${port}/x`, { rejectUnauthorized: false });
    unpaid.on("error", () => {});
    const status = new Promise((resolve) => {
      unpaid.once("unexpected-response", (_, answer) => resolve(answer.statusCode));
    });
    expect(await status).toBe(402);
  });

  test("tells what it cannot read in one line, and closes", async () => {
    const { port } = await openSecureShop(await greeting());
    const { socket } = await handshake(port);
    socket.write("GET /free HTTP/1.1\r\nHost : a\r\n\r\n");
    expect(await rest(socket)).toMatch(/^HTTP\/1.1 400 /);
    const large = await handshake(port);
    large.socket.write(`GET /free HTTP/1.1\r\nHost: a\r\nX-A: ${"a".repeat(40_000)}\r\n\r\n`);
    expect(await rest(large.socket)).toMatch(/^HTTP\/1.1 431 /);
    const preface = await handshake(port, { ALPNProtocols: ["http/1.1"] });
    preface.socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    expect(await rest(preface.socket)).toMatch(/^HTTP\/1.1 400 /);
  });
});
