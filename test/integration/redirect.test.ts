/** A listener that leads elsewhere goes by the file that is in force, and by names as whoever sells there does. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { start } from "../../src/app.ts";
import { formatProblems, parseConfig, processEnvironment } from "../../src/config/config.ts";
import { Listener } from "../../src/gateway/listener/listener.ts";
import { Redirect } from "../../src/gateway/listener/redirect.ts";
import { askPlain } from "./certificates/stage.ts";

const LIST = "hosts: [kept.example, '*.shops.example']";
const MAP = `hosts:
  dear.example: { publicUrl: "https://dear.example:8443", routes: { GET /d: free } }
  "*.shops.example": { publicUrl: https://www.shops.example, routes: { GET /s: free } }`;

function yaml(publicUrl: string, hosts: string, store: string): string {
  return `
listen: ["127.0.0.1:0", { address: "127.0.0.1:0", redirect: true }]
publicUrl: ${publicUrl}
${hosts}
upstream: http://127.0.0.1:9
routes: { GET /free: free }
unmatched: deny
store: sqlite:${store}
logging: { level: silent }
`;
}

test("a redirect follows each reload, and leaves each host where it is sold", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-redirect-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const read = (publicUrl: string, hosts: string) =>
    parseConfig(yaml(publicUrl, hosts, join(folder, "coinslot.db")), {
      ...processEnvironment,
      file: "test.yaml",
    });
  const first = read("https://old.example", LIST);
  if (!first.ok) throw new Error(formatProblems(first.problems, first.text));
  const next = read("https://new.example:444", MAP);
  const running = await start(first.config, "test", { load: async () => next, read: first });
  onTestFinished(() => running.close({ atOnce: true }));
  const port = running.addresses.gateway[1]?.port ?? 0;
  const led = async (host: string) => (await askPlain(port, "/a?b", host)).location;
  expect(await led("old.example")).toBe("https://old.example/a?b");
  expect(await led("kept.example.:80")).toBe("https://kept.example/a?b");
  expect(await led("a.shops.example")).toBe("https://a.shops.example/a?b");
  const { reloaded, problems } = await running.reload("POST /-/reload");
  expect([reloaded, problems.filter(({ severity }) => severity === "error")]).toEqual([true, []]);
  for (const host of ["old.example", "kept.example", "new.example", "evil.example/.shops.example"])
    expect(await led(host)).toBe("https://new.example:444/a?b");
  expect(await led("dear.example")).toBe("https://dear.example:8443/a?b");
  expect(await led("B.shops.example")).toBe("https://b.shops.example/a?b");
});

const UPGRADE = [
  "Host: shop.example",
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

test.each(["GET / HTTP/1.1", "CONNECT shop.example:443 HTTP/1.1"])(
  "%s that wants the connection itself is refused, and a reset of it ends nothing else",
  async (line) => {
    const places = { publicUrl: "https://shop.example", hosts: [] };
    const redirect = new Redirect({ answers: () => false }, places);
    const work = { placedSockets: [], isPressed: false };
    const place = { host: "127.0.0.1", port: 0, headerBytes: 16_384, redirect };
    const listener = new Listener({ work } as never, place);
    const { port } = await listener.open();
    onTestFinished(() => listener.drain(AbortSignal.abort()));
    const faults: unknown[] = [];
    const onFault = (cause: unknown): void => void faults.push(cause);
    process.on("uncaughtException", onFault);
    onTestFinished(() => void process.off("uncaughtException", onFault));
    const head = [line, ...UPGRADE, "", ""].join("\r\n");
    for (let at = 0; at < 20; at += 1) {
      const socket = connect(port, "127.0.0.1").on("error", () => undefined);
      await once(socket, "connect");
      socket.write(head);
      if (at % 2 === 1) await once(socket, "data");
      socket.resetAndDestroy();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(faults).toEqual([]);
    // Who keeps his side open keeps no connection of ours.
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    let answer = "";
    socket.on("data", (chunk) => (answer += String(chunk)));
    socket.on("error", () => undefined);
    socket.write(head);
    await once(socket, "end");
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    const closed = new Promise((resolve) => void socket.once("close", resolve));
    const more = setInterval(() => socket.write("x"), 20);
    await closed;
    clearInterval(more);
  },
);
