/** Buyers and strangers of a listener, while an authority is about to look at it by tls-alpn-01. */
import { once } from "node:events";
import { connect as connectPlain } from "node:net";
import { connect, type ConnectionOptions } from "node:tls";
import { expect, test } from "vitest";
import { HeldCertificates } from "../../../../src/gateway/listener/held-certificates.ts";
import { FIRST, SECOND } from "../../../support/listener-tls.ts";
import { backend } from "../stage.ts";
import { connectHttp2, openSecureShop, send1, send2 } from "./secure-stage.ts";

const NAME = "one.example";
const BODY = Buffer.alloc(300_000, "x");

async function open(maxConnections?: number): Promise<number> {
  const origin = await backend(async (request, response) => {
    let length = 0;
    for await (const chunk of request) length += Buffer.from(chunk).length;
    response.end(String(length));
  });
  const held = new HeldCertificates();
  const most = maxConnections === undefined ? {} : { maxConnections };
  const { port } = await openSecureShop(origin, { listener: { tls: { held }, ...most } });
  held.tell({
    certificates: [{ domain: NAME, ...FIRST }],
    challenges: [{ kind: "tls-alpn-01", domain: NAME, ...SECOND }],
  });
  return port;
}

async function asBuyers(port: number): Promise<readonly unknown[]> {
  const session = await connectHttp2(port);
  const upload = { path: "/free", method: "POST", body: [BODY] } as const;
  const answers = [
    await send1(port, { path: "/free" }),
    await send1(port, upload),
    await send2(session, { path: "/free" }),
    await send2(session, upload),
  ];
  session.destroy();
  return answers.map(({ status, body }) => `${status} ${String(body)}`);
}

const SERVED = ["200 0", `200 ${BODY.length}`, "200 0", `200 ${BODY.length}`];

/** The first record that a client sends. */
async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  const { createServer } = await import("node:net");
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  const client = connect({ host: "127.0.0.1", port, ...options }).on("error", () => undefined);
  const [socket] = await once(server, "connection");
  const [hello] = await once(socket, "data");
  client.destroy();
  socket.destroy();
  server.close();
  return hello as Buffer;
}

test("buyers are served by both protocols, with what they upload", async () => {
  expect(await asBuyers(await open())).toEqual(SERVED);
});

test("half hellos, other names and resets end nobody's connection but their own", async () => {
  const port = await open();
  const hellos = await Promise.all([
    helloOf({ servername: NAME, ALPNProtocols: ["acme-tls/1"] }),
    helloOf({ servername: "", ALPNProtocols: ["acme-tls/1"] }),
    helloOf({ servername: `${"a".repeat(200)}.example`, ALPNProtocols: ["acme-tls/1", "h2"] }),
    helloOf({ servername: "ONE.example", ALPNProtocols: ["http/1.1"] }),
  ]);
  const faults: unknown[] = [];
  const onFault = (cause: unknown): void => void faults.push(cause);
  process.on("unhandledRejection", onFault);
  try {
    for (let at = 0; at < 400; at += 1) {
      const hello = hellos[at % hellos.length] ?? Buffer.alloc(0);
      const socket = connectPlain(port, "127.0.0.1").on("error", () => undefined);
      await once(socket, "connect");
      const cut = at % 5 === 0 ? hello.length : Math.floor((hello.length * (at % 97)) / 97);
      socket.write(hello.subarray(0, cut));
      if (at % 3 === 0) await new Promise((resolve) => setImmediate(resolve));
      if (at % 4 === 0) socket.end();
      else if (at % 4 === 1) socket.resetAndDestroy();
      else if (at % 4 === 2) socket.destroy();
      else setTimeout(() => socket.destroy(), 50);
    }
    expect(await asBuyers(port)).toEqual(SERVED);
    expect(faults).toEqual([]);
  } finally {
    process.off("unhandledRejection", onFault);
  }
});

test("who says nothing makes room for buyers", async () => {
  const port = await open(64);
  const silent = Array.from({ length: 200 }, () => {
    const socket = connectPlain(port, "127.0.0.1").on("error", () => undefined);
    socket.write(Buffer.from([22, 3, 1, 2]));
    return socket;
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await asBuyers(port)).toEqual(SERVED);
  for (const socket of silent) socket.destroy();
});
