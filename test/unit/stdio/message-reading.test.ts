/** How much of messages that do not end is held, and whose. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { MessageReading, READING_BYTES } from "../../../src/stdio/message-reading.ts";

const MOST = 4 * 1024 * 1024;

interface Sent {
  readonly stream: PassThrough;
  readonly read: ReturnType<MessageReading["read"]>;
}

async function begin(reading: MessageReading, bytes: number): Promise<Sent> {
  const stream = new PassThrough();
  const read = reading.read(stream, MOST);
  read.catch(() => undefined);
  await say(stream, bytes);
  return { stream, read };
}

/** Resolves when all of it was taken. */
async function say(stream: PassThrough, bytes: number): Promise<void> {
  stream.write(Buffer.alloc(bytes, " "));
  await expect.poll(() => stream.readableLength + stream.writableLength).toBe(0);
}

test("where the room is taken, who has been at it for longest makes room, and a quick one has it", async () => {
  const reading = new MessageReading();
  const slow: Sent[] = [];
  // All but a byte of the largest message, over and over.
  for (let at = 0; at < READING_BYTES / MOST; at += 1) slow.push(await begin(reading, MOST - 1));
  const more = await begin(reading, MOST - 1);
  more.stream.end();
  expect(await more.read).toMatchObject({ kind: "whole" });
  for (const { stream } of slow) stream.end();
  const kinds = await Promise.all(slow.map(async ({ read }) => (await read).kind));
  expect(kinds).toEqual(["slow", ...slow.slice(1).map(() => "whole")]);
});

test("what is cut, is too large or had to make room holds nothing", async () => {
  const reading = new MessageReading();
  for (let times = 0; times < READING_BYTES / MOST; times += 1) {
    const { stream, read } = await begin(reading, MOST);
    if (times % 2 === 0) {
      stream.destroy(new Error("cut"));
      await expect(read).rejects.toThrow("cut");
    } else {
      stream.end(Buffer.alloc(1));
      expect(await read).toEqual({ kind: "large" });
    }
  }
  // All of the room is there.
  const held = [await begin(reading, MOST)];
  while (held.length < READING_BYTES / MOST) held.push(await begin(reading, MOST));
  for (const { stream } of held) stream.end();
  const kinds = await Promise.all(held.map(async ({ read }) => (await read).kind));
  expect(new Set(kinds)).toEqual(new Set(["whole"]));
});
