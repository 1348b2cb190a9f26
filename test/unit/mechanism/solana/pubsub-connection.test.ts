/** Where the websocket of an endpoint is, and how a connection to it begins and ends. */
import { createHash } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { drain, listen } from "../../../../src/gateway/listener/listener.ts";
import { openPubsub, pubsubTargets } from "../../../../src/mechanism/solana/pubsub-socket.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { openChannel, SLOW, startScriptedPubsub } from "./scripted-pubsub.ts";
import { eventually, never } from "./tracking.ts";

/** Listens on any port, and says where. */
async function listenPlainly(server: Server): Promise<string> {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  return `127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}

describe("where a websocket is looked for", () => {
  test.each([
    ["https://api.example.com/?api-key=k", ["wss://api.example.com/?api-key=k"]],
    ["http://localhost:8899", ["ws://localhost:8899/", "ws://localhost:8900/"]],
    ["https://node.example:65535/rpc", ["wss://node.example:65535/rpc"]],
    ["https://node.example:443", ["wss://node.example/"]],
    ["http://node.example:80/a?b#main", ["ws://node.example/a?b"]],
    ["http://127.0.0.1:8899/#main", ["ws://127.0.0.1:8899/", "ws://127.0.0.1:8900/"]],
  ])("%s", (url, expected) => {
    expect(pubsubTargets(url).map((target) => target.url)).toEqual(expected);
  });

  test("credentials go into a header, and nowhere else", () => {
    const [target] = pubsubTargets("https://me:s%20cret@node.example/path");
    const authorization = `Basic ${Buffer.from("me:s cret").toString("base64")}`;
    expect(target).toEqual({ url: "wss://node.example/path", headers: { authorization } });
  });
});

describe("an address that no websocket can have", () => {
  test("opens none, and is no fault of anybody's", async () => {
    const target = { url: "ws://node.example/#main", headers: {} };
    const opened = openPubsub({
      target,
      time: systemTime,
      onMessage: () => undefined,
      signal: never,
    });
    expect(await opened).toBeUndefined();
  });
});

describe("a server that is none", () => {
  test("is left alone when nobody has wanted anything for a minute", async () => {
    let attempts = 0;
    const server = createServer((socket) => {
      attempts += 1;
      socket.destroy();
    });
    const host = await listenPlainly(server);
    await using opened = openChannel({ url: `http://${host}`, host }, 200);
    opened.channel.follow("a");
    // Longer than the longest pause between two attempts.
    const isQuiet = async (): Promise<boolean> => {
      const before = attempts;
      await setTimeout(400);
      return attempts > 3 && attempts === before;
    };
    await eventually(isQuiet).toBe(true);
    server.close();
  });
});

describe("a websocket on the next port", () => {
  test("is remembered", async () => {
    await using server = await startScriptedPubsub();
    let refused = 0;
    const plain = createServer((socket) => {
      refused += 1;
      socket.destroy();
    });
    const port = Number(new URL(server.url).port) - 1;
    const isFree = await new Promise<boolean>((resolve) => {
      plain.once("error", () => resolve(false));
      plain.listen(port, "127.0.0.1", () => resolve(true));
    });
    // Somebody else's port answers nothing either, but counts nothing.
    const host = `127.0.0.1:${port}`;
    await using opened = openChannel({ url: `http://${host}`, host });
    const { channel, troubles } = opened;
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    server.clients[0]?.terminate();
    await eventually(() => server.clients.length).toBe(2);
    await eventually(() => channel.state("a")).toBe("live");
    expect(refused).toBe(isFree ? 1 : 0);
    expect(troubles.length).toBeLessThan(2);
    plain.close();
  });
});

describe("the end", () => {
  test("does not wait for a node that says no goodbye", async () => {
    const [asked, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const http = createHttpServer();
    http.on("upgrade", ({ headers }, socket: Socket) => {
      const key = `${headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
      const accept = createHash("sha1").update(key).digest("base64");
      const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket"];
      lines.push("Connection: Upgrade", `Sec-WebSocket-Accept: ${accept}`, "", "");
      socket.write(lines.join("\r\n"));
      socket.once("data", () => asked.resolve());
      socket.once("end", () => {
        socket.destroy();
        ended.resolve();
      });
    });
    const { port } = await listen(http, { host: "127.0.0.1", port: 0 });
    const host = `127.0.0.1:${port}`;
    const { channel } = openChannel({ url: `http://${host}`, host }, SLOW);
    channel.follow("a");
    await asked.promise;
    await channel.close();
    await ended.promise;
    await drain(http, AbortSignal.abort());
  });

  test("comes at once while the connection is being opened to a server that says nothing", async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket));
    const host = await listenPlainly(server);
    const { channel } = openChannel({ url: `http://${host}`, host }, 1);
    channel.follow("a");
    await eventually(() => sockets.length).toBe(1);
    const gone = new Promise((resolve) => {
      sockets[0]?.resume().on("close", resolve);
    });
    await channel.close();
    await gone;
    server.close();
    expect(channel.state("a")).toBe("none");
  });

  test("closes the connection, and takes no more wishes", async () => {
    await using server = await startScriptedPubsub();
    const { channel } = openChannel(server);
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    const closed = new Promise((resolve) => {
      server.clients[0]?.on("close", resolve);
    });
    await channel.close();
    await closed;
    channel.follow("b");
    expect(channel.state("b")).toBe("none");
    expect(server.clients).toHaveLength(1);
  });
});
