/**
 * Answers that stream through at the same time, to clients that read at once, much later, or only for a while:
 * every byte is that of the client's own answer, although their memory is used in turn.
 */
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { backend, stage } from "./stage.ts";
import { UNSTORED_SALE } from "../../support/sale.ts";

const CLIENTS = 45;
const SIZES = [20_000, 70_000, 700_000, 3_000_000];
/** More than the kernel takes for a client that does not read. */
const LATE_CLIENTS = 3;
const LATE_BYTES = 12_000_000;
/** What comes in small parts is read in small parts: then several of them wait for the client. */
const SMALL_PART = 4_001;
const LARGE_PART = 50_001;
/** Parts that a client reads that leaves. */
const PARTS = 3;

function sizeOf(client: number): number {
  return client < LATE_CLIENTS ? LATE_BYTES : (SIZES[client % SIZES.length] ?? 0);
}

/** Bytes of a body, which differ from those of all other clients, wherever one looks. */
function partOf(client: number, at: number, length: number): Buffer {
  const word = Buffer.alloc(4);
  word.writeUInt32BE(0x10_00_00_00 + client * 0x01_01);
  return Buffer.alloc(length + 3, word).subarray(at % 4, (at % 4) + length);
}

/** The answer with its head read and nothing else. */
async function ask(port: number, client: number): Promise<IncomingMessage> {
  const asked = get({ host: "127.0.0.1", port, path: `/${client}`, agent: false });
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return answer;
}

/** What is wrong with the body; null: nothing. A client that leaves does not read all of it. */
async function read(answer: IncomingMessage, client: number, leaves: boolean) {
  let at = 0;
  let parts = 0;
  for await (const part of answer) {
    const bytes = part as Buffer;
    if (!bytes.equals(partOf(client, at, bytes.length))) return `${client}: other bytes at ${at}`;
    at += bytes.length;
    parts += 1;
    if (leaves && parts === PARTS) return null;
  }
  return leaves || at === sizeOf(client) ? null : `${client}: ${at} bytes`;
}

test.each(["counted", "chunked"])("%s bodies are never mixed up", async (framing) => {
  const origin = await backend(async (request, response) => {
    const client = Number(request.url?.slice(1));
    const size = sizeOf(client);
    const part = client < LATE_CLIENTS ? SMALL_PART : LARGE_PART;
    if (framing === "counted") response.setHeader("Content-Length", size);
    for (let at = 0; at < size && !response.destroyed; at += part) {
      response.write(partOf(client, at, Math.min(part, size - at)));
      if (part === SMALL_PART) await turn();
    }
    response.end();
  });
  const { port, exchanges } = await stage(origin);
  const late: IncomingMessage[] = [];
  for (let client = 0; client < LATE_CLIENTS; client += 1) late.push(await ask(port, client));
  const areHeld = () => exchanges.every(({ response }) => response.writableLength > 0);
  await expect.poll(areHeld, { timeout: 20_000 }).toBe(true);
  const others = Array.from({ length: CLIENTS }, (_, index) => LATE_CLIENTS + index);
  const wrong = await Promise.all(
    others.map(async (client) => read(await ask(port, client), client, client % 3 === 0)),
  );
  for (const [client, answer] of late.entries()) wrong.push(await read(answer, client, false));
  expect(wrong.filter((fault) => fault !== null)).toEqual([]);
});

test("what is kept of an answer is not read into again", async () => {
  const client = 7;
  const size = 50 * SMALL_PART;
  const origin = await backend(async (_request, response) => {
    response.setHeader("Content-Length", size);
    for (let at = 0; at < size; at += SMALL_PART) {
      response.write(partOf(client, at, SMALL_PART));
      // Each part is a read of its own.
      await pause(4);
    }
    response.end();
  });
  const sale = { ...UNSTORED_SALE, keepBytes: size };
  const { port, delivery } = await stage(origin, {}, { sale });
  for await (const _ of await ask(port, client)) continue;
  const delivered = await delivery();
  const kept = "kept" in delivered ? delivered.kept?.response.body : undefined;
  expect(partOf(client, 0, size).equals(kept ?? Buffer.alloc(0))).toBe(true);
});
