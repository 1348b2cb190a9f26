/** Backends behind TLS. */
import { createServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { rawBackend } from "../../integration/gateway/stage.ts";
import type { H1PoolOptions } from "../../../src/http1/pool.ts";
import { ask, dispatch, ManualClock, openPool, turns, until } from "./pool-stage.ts";
import { certificate, privateKey } from "./tls-identity.ts";

/** Echoes bodies; `connections` are those that came up. */
async function secure(options: ServerOptions = {}) {
  const connections: TLSSocket[] = [];
  let requests = 0;
  const server = createServer({ cert: certificate, key: privateKey, ...options });
  server.on("secureConnection", (socket) => connections.push(socket));
  server.on("tlsClientError", () => {});
  server.on("request", (request, response) => {
    requests += 1;
    request.pipe(response);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { origin: `https://127.0.0.1:${port}`, connections, requests: () => requests };
}

const trusted = { tls: { ca: certificate, servername: "backend.example" } };

const post = (body: Buffer) => ({ method: "POST", body });

describe("a backend behind TLS", () => {
  test("is asked by its name, for HTTP/1.1, on connections that are kept", async () => {
    const { origin, connections } = await secure({ ALPNProtocols: ["h2", "http/1.1"] });
    const pool = openPool(origin, trusted);
    let connected = 0;
    pool.on("connect", () => (connected += 1));
    for (const length of [3, 20_000, 3_000_000]) {
      const body = Buffer.alloc(length, "0123456789abcdef!");
      const course = await ask(pool, post(body));
      expect(course.fault).toBeNull();
      expect(Buffer.concat(course.chunks).equals(body)).toBe(true);
      await turns(3);
    }
    expect(connections.length).toBe(1);
    expect(connected).toBe(1);
    expect(connections[0]).toMatchObject({
      alpnProtocol: "http/1.1",
      servername: "backend.example",
    });
  });

  test("is held and let go like any other", async () => {
    const { origin } = await secure();
    const body = Buffer.alloc(3_000_000, "0123456789abcdef!");
    const course = dispatch(openPool(origin, trusted), post(body));
    course.reactions["data"] = (controller) => {
      controller.pause();
      setImmediate(() => controller.resume());
    };
    expect((await course.ended).fault).toBeNull();
    expect(Buffer.concat(course.chunks).equals(body)).toBe(true);
  });

  test("knows the next connection by the last one's session", async () => {
    const { origin, connections } = await secure();
    const pool = openPool(origin, trusted);
    for (let round = 0; round < 3; round += 1) {
      expect((await ask(pool, { fresh: true })).fault).toBeNull();
      await turns(3);
    }
    expect(connections.map((socket) => socket.isSessionReused())).toEqual([false, true, true]);
  });

  test.each<[string, Partial<H1PoolOptions>, ServerOptions]>([
    ["signed by a stranger", { tls: { servername: "backend.example" } }, {}],
    ["of another name", { tls: { ca: certificate, servername: "shop.example" } }, {}],
    ["without the origin's name", { tls: { ca: certificate } }, {}],
    ["that speaks HTTP/2 only", trusted, { ALPNProtocols: ["h2"] }],
    ["that speaks an old TLS only", trusted, { maxVersion: "TLSv1.1", minVersion: "TLSv1" }],
  ])("%s is told nothing", async (_, options, server) => {
    const { origin, requests } = await secure(server);
    const pool = openPool(origin, options);
    const failed: Error[] = [];
    pool.on("connectionError", (error) => failed.push(error));
    const course = await ask(pool);
    expect(course).toMatchObject({ fault: "connect", calls: ["error"] });
    expect(failed).toEqual([course.error]);
    expect(requests()).toBe(0);
    expect(pool.counts.open).toBe(0);
  });

  test.each([
    { cert: certificate, key: "no key" },
    { key: privateKey, cert: "no certificate" },
  ])("is not opened with a certificate or a key that is none", (tls) => {
    expect(() => openPool("https://127.0.0.1:1", { tls })).toThrow(/not what TLS takes/);
  });

  test("that speaks no TLS is told nothing", async () => {
    const origin = await rawBackend((socket) => {
      socket.once("data", () => void socket.write("HTTP/1.1 400 Bad Request\r\n\r\n"));
    });
    const course = await ask(openPool(origin.replace("http:", "https:"), trusted));
    expect(course).toMatchObject({ fault: "connect", calls: ["error"] });
  });

  test("that never finishes its handshake is given up in time", async () => {
    let accepted = 0;
    const origin = await rawBackend(() => (accepted += 1));
    const clock = new ManualClock();
    const pool = openPool(origin.replace("http:", "https:"), { ...trusted, now: clock.now });
    const course = dispatch(pool);
    await until(() => accepted === 1);
    clock.ms += 10_000;
    expect((await course.ended).fault).toBe("connect-timeout");
  });
});
