import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { isTunnel, Tunnels } from "../../../../src/gateway/upstream/tunnels.ts";

const HOUR_MS = 3_600_000;

/** Two ends of one real connection. */
async function pair(): Promise<{ readonly far: Socket; readonly near: Socket }> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const far = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [near] = (await once(server, "connection")) as [Socket];
  server.close();
  onTestFinished(() => {
    far.destroy();
    near.destroy();
  });
  near.resume();
  far.resume();
  return { far, near };
}

async function opened(limits: { tunnelIdleMs: number; tunnelLifeMs: number }) {
  const client = await pair();
  const backend = await pair();
  new Tunnels(limits).open(client.near, backend.far);
  return { client: client.far, near: client.near, backend: backend.far };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("a tunnel", () => {
  test("is one as long as its backend is there", async () => {
    const { near, backend } = await opened({ tunnelIdleMs: HOUR_MS, tunnelLifeMs: HOUR_MS });
    expect(isTunnel(near)).toBe(true);
    backend.destroy();
    await once(backend, "close");
    expect(near.destroyed).toBe(false);
    expect(isTunnel(near)).toBe(false);
  });

  test("lives through an hour of silence and carries bytes afterwards", async () => {
    const { client, near } = await opened({
      tunnelIdleMs: 2 * HOUR_MS,
      tunnelLifeMs: 24 * HOUR_MS,
    });
    vi.advanceTimersByTime(HOUR_MS);
    expect(near.destroyed).toBe(false);
    near.write("still here");
    const [text] = (await once(client, "data")) as [Buffer];
    expect(text.toString()).toBe("still here");
  });

  test("ends when nothing has moved for too long", async () => {
    const { client, near } = await opened({ tunnelIdleMs: HOUR_MS, tunnelLifeMs: 24 * HOUR_MS });
    vi.advanceTimersByTime(HOUR_MS - 1_000);
    expect(near.destroyed).toBe(false);
    vi.advanceTimersByTime(2_000);
    expect(near.destroyed).toBe(true);
    await once(client, "close");
  });

  test.each(["the client", "the backend"])("is kept alive by what %s sends", async (who) => {
    const { client, near } = await opened({ tunnelIdleMs: HOUR_MS, tunnelLifeMs: 24 * HOUR_MS });
    const [from, to] = who === "the client" ? [client, near] : [near, client];
    for (let round = 0; round < 5; round += 1) {
      vi.advanceTimersByTime(HOUR_MS - 60_000);
      from.write("x");
      await once(to, "data");
    }
    expect(near.destroyed).toBe(false);
    vi.advanceTimersByTime(HOUR_MS + 1_000);
    expect(near.destroyed).toBe(true);
  });

  test("ends after its longest life, whatever moves", async () => {
    const { client, near } = await opened({ tunnelIdleMs: HOUR_MS, tunnelLifeMs: 2 * HOUR_MS });
    for (let round = 0; round < 3; round += 1) {
      vi.advanceTimersByTime(HOUR_MS / 2);
      client.write("x");
      await once(near, "data");
      expect(near.destroyed).toBe(false);
    }
    vi.advanceTimersByTime(HOUR_MS / 2);
    expect(near.destroyed).toBe(true);
  });

  test("that has ended costs nothing any more", async () => {
    const { client, near } = await opened({ tunnelIdleMs: HOUR_MS, tunnelLifeMs: HOUR_MS });
    client.destroy();
    await once(near, "close");
    vi.advanceTimersByTime(1_000);
    expect(vi.getTimerCount()).toBe(0);
  });
});
