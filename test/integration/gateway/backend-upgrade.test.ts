import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { group, nobody, type Group } from "./backend-stage.ts";

interface Echo {
  readonly origin: string;
  /** Path and Host of each handshake. */
  readonly handshakes: string[];
}

/** Greets with its letter, and says everything again. */
async function echo(letter: string): Promise<Echo> {
  const handshakes: string[] = [];
  const server = createServer();
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket, request) => {
    const { host, "x-api-key": key } = request.headers;
    handshakes.push([request.url, host, key].join(" "));
    socket.on("error", () => {});
    socket.on("message", (message, isBinary) => socket.send(message, { binary: isBinary }));
    socket.send(letter);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const client of sockets.clients) client.terminate();
    server.close();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, handshakes };
}

/** The letter of the target, and what it says to `hello`; or how the handshake failed. */
async function talk({ shop }: Group): Promise<readonly string[]> {
  const socket = new WebSocket(`ws://127.0.0.1:${shop.port}/free/socket`);
  onTestFinished(() => socket.terminate());
  const said: string[] = [];
  try {
    const [[greeting]] = await Promise.all([once(socket, "message"), once(socket, "open")]);
    said.push(String(greeting));
    socket.send("hello");
    said.push(String((await once(socket, "message"))[0]));
  } catch (error) {
    said.push(String(error));
  }
  return said;
}

describe("WebSockets", () => {
  test("take turns between the targets, and are rewritten like requests", async () => {
    const [a, b] = [await echo("a"), await echo("b")];
    const of = await group([a, b], {
      rewriting: {
        path: { strip: "/free", prefix: "/internal" },
        host: { kind: "name", name: "api.internal" },
        set: ["X-Api-Key", "secret"],
      },
    });
    expect([await talk(of), await talk(of)]).toEqual([
      ["a", "hello"],
      ["b", "hello"],
    ]);
    expect(a.handshakes).toEqual(["/internal/socket api.internal secret"]);
  });

  test("go to another target where one cannot be reached", async () => {
    const of = await group([await nobody(), await echo("b")]);
    for (let count = 0; count < 6; count += 1) expect(await talk(of)).toEqual(["b", "hello"]);
  });

  test("that stay open are open requests to the balancer", async () => {
    const [a, b] = [await echo("a"), await echo("b")];
    const of = await group([a, b], { balance: "least-requests" });
    const letters: string[] = [];
    for (let count = 0; count < 6; count += 1) letters.push((await talk(of))[0] ?? "");
    expect(letters.sort()).toEqual(["a", "a", "a", "b", "b", "b"]);
  });

  test("are refused with 502 where nobody can be reached", async () => {
    const of = await group([await nobody(), await nobody()]);
    expect(await talk(of)).toEqual(["Error: Unexpected server response: 502"]);
  });
});
