/** The proof of `uploads.ts` in short, and what strangers can make of it. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Proving } from "./proofs.ts";
import { missing, UPLOAD_CLIENTS } from "./upload-clients.ts";

const PATIENCE_MS = 120_000;
const MIB = 8;
const TIMES = 3;
const clients = await Promise.all(
  UPLOAD_CLIENTS.map(async (client) => ({ client, lacks: await missing(client) })),
);

let folder: string;
let plain: Proving;
let secure: Proving;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-uploads-"));
  plain = await Proving.start();
  secure = await Proving.start({ isTls: true });
}, PATIENCE_MS);

afterAll(async () => {
  await plain[Symbol.asyncDispose]();
  await secure[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

describe(`uploads of ${MIB} MiB get their answer`, () => {
  for (const { client, lacks } of clients) {
    const { name, isTls, upload } = client;
    test.skipIf(lacks !== null)(
      `${name} (${lacks ?? "installed"})`,
      async () => {
        const { port } = isTls ? secure : plain;
        const url = `${isTls ? "https" : "http"}://127.0.0.1:${port}/paid/upload`;
        for (let count = 0; count < TIMES; count += 1) await upload(url, MIB, folder);
      },
      PATIENCE_MS,
    );
  }
});

test(
  "a buyer buys while strangers send bodies without an end",
  async () => {
    const { port } = plain;
    const piece = Buffer.alloc(64 * 1024, "s");
    const head = "POST /paid/upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n";
    const over = new AbortController();
    const send = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
        socket.on("error", () => undefined).resume();
        const closed = once(socket, "close").catch(() => undefined);
        socket.write(head);
        while (!over.signal.aborted && !socket.destroyed) {
          if (!socket.write(piece)) await Promise.race([once(socket, "drain"), closed]);
        }
        socket.destroy();
        await closed;
      }
    };
    const strangers = Array.from({ length: 100 }, () => send().catch(() => undefined));
    const buyer = UPLOAD_CLIENTS[0];
    const waits: number[] = [];
    for (let count = 0; count < 5; count += 1) {
      const started = performance.now();
      await buyer?.upload(`http://127.0.0.1:${port}/paid/upload`, 1, folder);
      waits.push(performance.now() - started);
    }
    over.abort();
    await Promise.all(strangers);
    // Ten thousand pieces that are read before his turn would take longer.
    expect(Math.max(...waits)).toBeLessThan(10_000);
    const { rss } = await plain.look("peaks");
    expect(rss).toBeLessThan(512 * 1024 * 1024);
  },
  PATIENCE_MS,
);
