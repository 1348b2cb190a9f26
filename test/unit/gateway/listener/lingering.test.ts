import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { answerInTurn } from "../../../../src/gateway/listener/answers-in-turn.ts";
import { ConnectionTable } from "../../../../src/gateway/listener/connection-table.ts";

const MIB = 1024 * 1024;
const ANSWER = "a price";

/** Answers each request at once, as the last one of its connection. */
async function open(): Promise<Server> {
  const server = createServer();
  const table = new ConnectionTable(1_000);
  server.prependListener("connection", (socket: Socket) => void table.add(socket));
  const serve: RequestListener = (_request, response) => {
    response.writeHead(402, { Connection: "close", "Content-Length": ANSWER.length });
    response.end(ANSWER);
  };
  answerInTurn(server, { serve, serveContinue: serve }, { table });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return server;
}

/** A client that reads nothing before it is told to. */
async function sender(server: Server, head: readonly string[], from = "127.0.0.1") {
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: "127.0.0.1", localAddress: from, allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  const errors: unknown[] = [];
  socket.on("error", (error) => errors.push(error));
  await once(socket, "connect");
  socket.write(["POST / HTTP/1.1", "Host: a", ...head, "", ""].join("\r\n"));
  return { socket, errors };
}

/** Pieces until the socket is closed, or so many bytes are written. */
async function pour(socket: Socket, most: number): Promise<number> {
  const piece = Buffer.alloc(64 * 1024, "b");
  const closed = once(socket, "close").catch(() => undefined);
  let written = 0;
  for (; written < most && !socket.destroyed; written += piece.length) {
    if (!socket.write(piece)) await Promise.race([once(socket, "drain"), closed]).catch(() => null);
  }
  return written;
}

async function read(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (part: Buffer) => (text += part.toString()));
  await Promise.race([once(socket, "end"), once(socket, "close")]);
  return text;
}

test.each([
  ["Content-Length", [`Content-Length: ${24 * MIB}`]],
  ["100-continue that is not waited for", [`Content-Length: ${24 * MIB}`, "Expect: 100-continue"]],
])("whoever sends all before it reads gets the answer: %s", async (_name, head) => {
  const { socket, errors } = await sender(await open(), head);
  expect(await pour(socket, 24 * MIB)).toBe(24 * MIB);
  const text = await read(socket);
  expect(errors).toEqual([]);
  expect(text).toMatch(/^HTTP\/1\.1 402 [^]*a price$/);
});

test("a body without an end is read to a bound", async () => {
  const { socket } = await sender(await open(), [`Content-Length: ${1024 * MIB}`]);
  socket.resume();
  const written = await pour(socket, 256 * MIB);
  expect(socket.destroyed).toBe(true);
  expect(written).toBeGreaterThan(60 * MIB);
  // What is on its way counts for whoever sends it.
  expect(written).toBeLessThan(80 * MIB);
});

test("a server that is closed waits for nobody who sends on", async () => {
  const server = await open();
  const { socket } = await sender(server, [`Content-Length: ${1024 * MIB}`]);
  socket.resume();
  await once(socket, "end");
  const trickle = setInterval(() => socket.write("b"), 50);
  onTestFinished(() => clearInterval(trickle));
  const started = performance.now();
  await new Promise((resolve) => void server.close(resolve));
  expect(performance.now() - started).toBeLessThan(4_000);
});

test("too many who linger make room, of addresses that have most first", async () => {
  const server = await open();
  const head = [`Content-Length: ${MIB}`];
  const lingering = async (from?: string): Promise<Socket> => {
    const { socket } = await sender(server, head, from);
    socket.resume();
    await once(socket, "end");
    return socket;
  };
  const honest = await lingering("127.0.0.2");
  const others: Socket[] = [];
  for (let count = 0; count < 300; count += 1) others.push(await lingering());
  // Of 301, the 45 that came first of the address with most.
  const ended = (): number => {
    // Our side has ended long ago: who sends more learns that the other has, too.
    for (const socket of [honest, ...others]) if (!socket.destroyed) socket.write("b");
    return others.filter(({ destroyed }) => destroyed).length;
  };
  await expect.poll(ended, { timeout: 20_000 }).toBe(45);
  expect(others.findLastIndex(({ destroyed }) => destroyed)).toBe(44);
  expect(honest.destroyed).toBe(false);
});
