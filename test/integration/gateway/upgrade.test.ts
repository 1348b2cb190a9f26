import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { certificate, privateKey } from "../../unit/http1/tls-identity.ts";
import { openShop } from "./shop.ts";
import { backend, onHead, rawBackend, RawClient, stage } from "./stage.ts";
import { UNSTORED_SALE } from "../../support/sale.ts";

const key = "dGhlIHNhbXBsZSBub25jZQ==";
const accept = acceptOf(key);

function acceptOf(text: string): string {
  return createHash("sha1").update(`${text}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
}

function handshake(target = "/chat", lines: readonly string[] = []): string {
  const head = [
    `GET ${target} HTTP/1.1`,
    "Host: api.example.com",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${key}`,
    ...lines,
  ];
  return `${head.join("\r\n")}\r\n\r\n`;
}

/** Switches, and then sends everything back. */
function echoing(heads: string[], lines = "", sockets: Socket[] = []): Promise<string> {
  return rawBackend((socket) => {
    sockets.push(socket);
    socket.once("data", (chunk) => {
      const head = chunk.toString("latin1");
      const [, sent = ""] = /sec-websocket-key: (.*)\r\n/i.exec(head) ?? [];
      heads.push(head);
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
          `Sec-WebSocket-Accept: ${acceptOf(sent)}\r\n${lines}\r\n`,
      );
      socket.pipe(socket);
    });
  });
}

/** What goes along with one that was paid for. */
const UNKEPT = { ...UNSTORED_SALE, failureLines: ["Retry-After", "2"] };

describe("a WebSocket", () => {
  test("carries bytes both ways", async () => {
    const { port, delivery } = await stage(await echoing([]));
    const client = new RawClient(port, handshake());
    expect(await client.until("\r\n\r\n")).toContain("HTTP/1.1 101 Switching Protocols");
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 101 });
    client.socket.write("\x81\x05hello");
    expect(await client.until("hello")).toContain(`Sec-WebSocket-Accept: ${accept}`);
    client.socket.end();
    await client.closed;
  });

  test("is one that a real client opens", async () => {
    const { port } = await stage(await echoing([]));
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat?a=b`);
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", reject);
    });
    socket.close();
  });

  test.each([
    "/chat",
    "/",
    "/a?",
    "/a?b?c",
    "/a/%C3%A9?q='x'&&\"<>{}|\\^`&y=%zz",
    "/a/...",
    "/a?//",
    "/:a",
  ])("asks for %s byte for byte", async (target) => {
    const heads: string[] = [];
    const { port } = await stage(await echoing(heads));
    await new RawClient(port, handshake(target)).until("\r\n\r\n");
    expect(heads[0]?.split("\r\n")[0]).toBe(`GET ${target} HTTP/1.1`);
  });

  test("takes to the backend only what crosses, and ours", async () => {
    const heads: string[] = [];
    const origin = await echoing(heads);
    const { port } = await stage(origin, {}, { requestHeaders: ["X-402-Payer", "0xbeef"] });
    const lines = ["X-PAYMENT: secret", "X-402-Payer: 0xdead", "X_402_Payer: 0xdead", "A: 1"];
    const client = new RawClient(port, handshake("/", [...lines, "a: 2", "Forwarded: for=x"]));
    await client.until("\r\n\r\n");
    expect(heads[0]?.trim().split("\r\n").slice(1).sort()).toEqual(
      [
        `Host: ${new URL(origin).host}`,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        `Sec-WebSocket-Key: ${key}`,
        "A: 1",
        "A: 2",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Host: api.example.com",
        "X-Forwarded-Proto: http",
        "X-402-Payer: 0xbeef",
      ].sort(),
    );
  });

  test("brings the client no receipt but ours", async () => {
    const forged =
      "X-PAYMENT-RESPONSE: forged\r\nX-402-Payer: forged\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n";
    const origin = await echoing([], forged);
    const { port } = await stage(origin, {}, { responseSet: ["X-PAYMENT-RESPONSE", "ours"] });
    const text = await new RawClient(port, handshake()).until("\r\n\r\n");
    expect(text).not.toContain("forged");
    expect(text).toContain("X-PAYMENT-RESPONSE: ours\r\n");
    expect(text).toContain("Set-Cookie: a\r\nSet-Cookie: b\r\n");
  });

  test("that was paid for brings the backend a key, and a failure an invitation", async () => {
    const sale = UNKEPT;
    const heads: string[] = [];
    const { port } = await stage(await echoing(heads), {}, { sale });
    await new RawClient(port, handshake()).until("\r\n\r\n");
    expect(heads[0]).toMatch(/^Idempotency-Key: ours\r$/m);
    for (const [status, expected] of [
      [503, true],
      [401, false],
    ] as const) {
      const origin = await backend((_, response) => void response.writeHead(status).end("no"));
      const declined = await stage(origin, {}, { sale });
      const { text } = await new RawClient(declined.port, handshake()).closed;
      expect(text.includes("Retry-After: 2\r\n")).toBe(expected);
      expect(await declined.delivery()).not.toHaveProperty("kept");
    }
  });

  test("that was paid for and is refused is told so when it is stored", async () => {
    const origin = await backend((_, response) => void response.writeHead(503).end("no"));
    const stored = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const refused = (): Promise<void> => {
      asked.resolve();
      return stored.promise;
    };
    const { port } = await stage(origin, {}, { sale: { ...UNKEPT, refused } });
    const client = new RawClient(port, handshake());
    await asked.promise;
    expect(client.socket.bytesRead).toBe(0);
    stored.resolve();
    expect((await client.closed).text).toContain("HTTP/1.1 503");
  });

  test("is closed on one side when the other goes", async () => {
    const sockets: Socket[] = [];
    const { port } = await stage(await echoing([], "", sockets));
    const first = new RawClient(port, handshake());
    await first.until("\r\n\r\n");
    const gone = new Promise((resolve) => sockets[0]?.once("close", resolve));
    first.socket.resetAndDestroy();
    await gone;
    const second = new RawClient(port, handshake());
    await second.until("\r\n\r\n");
    sockets[1]?.resetAndDestroy();
    await second.closed;
  });

  test("is closed when nothing has moved for the idle time", async () => {
    const sockets: Socket[] = [];
    const { port } = await stage(await echoing([], "", sockets), { tunnelIdleMs: 100 });
    const client = new RawClient(port, handshake());
    await client.until("\r\n\r\n");
    const gone = new Promise((resolve) => sockets[0]?.once("close", resolve));
    await client.closed;
    await gone;
  });

  test("over the limit is not opened", async () => {
    const { port, delivery } = await stage(await echoing([]), { upgrades: 1 });
    const first = new RawClient(port, handshake());
    await first.until("\r\n\r\n");
    await delivery();
    const { text } = await new RawClient(port, handshake()).closed;
    expect(text).toContain("HTTP/1.1 503");
    expect(await delivery()).toMatchObject({ reason: "saturated", sent: false });
  });

  test("of 200 addresses that keep all of them silent does not lock twenty others out", async () => {
    const { port } = await stage(await echoing([]), { upgrades: 400 });
    let closed = 0;
    const open = async (localAddress: string): Promise<string> => {
      const socket = connect({ port, host: "127.0.0.1", localAddress });
      socket.once("close", () => (closed += 1));
      onTestFinished(() => void socket.destroy());
      socket.on("error", () => {}).write(handshake());
      const [head] = (await once(socket, "data")) as [Buffer];
      return head.toString("latin1").slice(0, 12);
    };
    const strangers = Array.from({ length: 400 }, (_, index) =>
      open(`127.1.0.${(index % 200) + 1}`),
    );
    expect(new Set(await Promise.all(strangers))).toEqual(new Set(["HTTP/1.1 101"]));
    const honest = Array.from({ length: 20 }, (_, index) => open(`127.2.0.${index + 1}`));
    expect(new Set(await Promise.all(honest))).toEqual(new Set(["HTTP/1.1 101"]));
    await expect.poll(() => closed).toBe(20);
    // Those who have as many as others get no more.
    expect(await open("127.1.0.200")).toBe("HTTP/1.1 503");
  });

  test("lives on while its engine closes, until the time is over", async () => {
    const { port, engine } = await stage(await echoing([]));
    const client = new RawClient(port, handshake());
    await client.until("\r\n\r\n");
    const deadline = new AbortController();
    const closed = engine.close(deadline.signal);
    client.socket.write("still here");
    await client.until("still here");
    expect((await new RawClient(port, handshake()).closed).text).toContain("503");
    deadline.abort();
    await closed;
    await client.closed;
  });
});

describe("a handshake", () => {
  test("that the backend refuses is answered with its refusal", async () => {
    const origin = await backend((_, response) => {
      response.writeHead(401, { "www-authenticate": "Basic", "x-payment-response": "forged" });
      response.write("not ");
      response.end("you");
    });
    const { port, delivery } = await stage(origin);
    const { text } = await new RawClient(port, handshake()).closed;
    expect(text).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n/);
    expect(text).toContain("www-authenticate: Basic\r\n");
    expect(text).toContain("Content-Length: 7\r\n\r\nnot you");
    expect(text).not.toMatch(/forged|transfer-encoding/i);
    expect(await delivery()).toMatchObject({ kind: "delivered", status: 401 });
  });

  test("of another version is told which one is taken, in lines that go together", async () => {
    const { port } = await openShop(await echoing([]));
    const client = new RawClient(port, handshake("/free").replace("Version: 13", "Version: 8"));
    const { text } = await client.closed;
    expect(text).toMatch(/^HTTP\/1\.1 426 Upgrade Required\r\nUpgrade: websocket\r\n/);
    expect(text).toContain("\r\nConnection: close, Upgrade\r\n");
  });

  test("that the backend wants in another protocol says so", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write(
          "HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade, X-Hop\r\n" +
            "X-Hop: 1\r\nContent-Length: 0\r\n\r\n",
        );
      });
    });
    const { port } = await stage(origin);
    const { text } = await new RawClient(port, handshake()).closed;
    expect(text).toBe(
      "HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\n" +
        "Connection: close, Upgrade\r\nContent-Length: 0\r\n\r\n",
    );
  });

  test("that the backend refuses at length is a 502", async () => {
    const origin = await backend((_, response) => void response.end("a".repeat(100_000)));
    const { port, delivery } = await stage(origin);
    expect((await new RawClient(port, handshake()).closed).text).toContain("HTTP/1.1 502");
    expect(await delivery()).toMatchObject({ reason: "malformed", sent: true });
  });

  test.each<[string, (socket: Socket) => void]>([
    ["closes", (socket) => void socket.end()],
    ["resets", (socket) => void socket.resetAndDestroy()],
    ["answers with garbage", (socket) => void socket.end("garbage\r\n\r\n")],
    [
      "refuses and breaks off",
      (socket) => void socket.end("HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nno"),
    ],
  ])("is a 502 when the backend %s", async (_, act) => {
    const origin = await rawBackend((socket) => onHead(socket, () => act(socket)));
    const { port, delivery } = await stage(origin);
    expect((await new RawClient(port, handshake()).closed).text).toContain("HTTP/1.1 502");
    expect(await delivery()).toMatchObject({ kind: "unanswered", reason: "broken", sent: true });
  });

  test("is a 502 when no backend is there", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const free = typeof address === "object" ? address?.port : 0;
    await new Promise((resolve) => void server.close(resolve));
    const { port, delivery } = await stage(`http://127.0.0.1:${free}`);
    expect((await new RawClient(port, handshake()).closed).text).toContain("HTTP/1.1 502");
    expect(await delivery()).toMatchObject({ reason: "connect", sent: false });
  });

  test("is a 504 when the backend does not answer it in time", async () => {
    const origin = await rawBackend(() => {});
    const { port, delivery } = await stage(origin, { responseTimeoutMs: 100 });
    expect((await new RawClient(port, handshake()).closed).text).toContain("HTTP/1.1 504");
    expect(await delivery()).toMatchObject({ reason: "timeout", sent: true });
  });

  test("whose client leaves is cancelled", async () => {
    const arrived = Promise.withResolvers<Socket>();
    const origin = await rawBackend((socket) => onHead(socket, () => arrived.resolve(socket)));
    const { port, delivery } = await stage(origin);
    const client = new RawClient(port, handshake());
    const socket = await arrived.promise;
    const gone = new Promise((resolve) => socket.once("close", resolve));
    client.socket.resetAndDestroy();
    await gone;
    expect(await delivery()).toEqual({ kind: "abandoned", status: null, sent: true });
  });

  test("never crashes the process, whatever either side sends after it", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write("HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\0\xff");
        setImmediate(() => socket.resetAndDestroy());
      });
    });
    const { port } = await stage(origin);
    const clients = Array.from({ length: 20 }, () => new RawClient(port, handshake()));
    for (const [index, client] of clients.entries()) {
      client.socket.write("x".repeat(1000));
      if (index % 2 === 0) setImmediate(() => client.socket.resetAndDestroy());
    }
    await Promise.all(clients.map((client) => client.closed));
  });
});

test("a message that carries a body is no handshake: the body reaches nobody", async () => {
  const heads: string[] = [];
  const { port, exchanges } = await stage(await echoing(heads));
  const body = "GET /admin HTTP/1.1\r\n\r\n";
  const head = handshake("/", [`Content-Length: ${body.length}`]);
  // Node itself hands such a request on as an upgrade with the body as its head; `readUpgrade` refuses it.
  const client = new RawClient(port, head + body);
  await client.until("\r\n\r\n");
  expect(exchanges).toEqual([]);
});

/** Answers each handshake with 101; `names` are those that it was asked for by. */
async function secure(names: string[]): Promise<string> {
  const server = createTlsServer({ cert: certificate, key: privateKey }, (socket) => {
    names.push(String(Reflect.get(socket, "servername")));
    socket.on("error", () => {});
    onHead(socket, () => {
      socket.write("HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = Object(server.address());
  return `https://127.0.0.1:${port}`;
}

describe("a WebSocket to a backend behind TLS", () => {
  const tls = { ca: certificate, serverName: "backend.example" };

  test("is opened where its certificate is the one that is expected, whatever Host says", async () => {
    const names: string[] = [];
    const { port } = await stage(await secure(names), { tls });
    const client = new RawClient(port, handshake());
    expect(await client.until("hello")).toContain("101");
    expect(names).toEqual(["backend.example"]);
    client.socket.destroy();
  });

  test.each([
    ["its certificate is nobody's that we know", { serverName: "backend.example" }],
    ["its certificate has another name", { ca: certificate }],
  ])("is not opened where %s", async (_, options) => {
    const names: string[] = [];
    const { port, delivery } = await stage(await secure(names), { tls: options });
    const named = handshake().replace("api.example.com", "backend.example");
    const { text } = await new RawClient(port, named).closed;
    expect(text).toContain("HTTP/1.1 502");
    expect(await delivery()).toMatchObject({ kind: "unanswered" });
  });
});
