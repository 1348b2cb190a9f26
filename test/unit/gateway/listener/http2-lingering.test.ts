import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { Http2Lingering, isUpload } from "../../../../src/gateway/listener/http2-lingering.ts";

const MIB = 1024 * 1024;
/** Answers that are held at the same time. */
const MOST = 256;
const SILENT = { timeout: 10_000 };

/** An upload whose answer is held: whether it has been told. */
function upload(lingering: Http2Lingering, from: string) {
  const stream = new PassThrough();
  const told: string[] = [];
  lingering.hold(stream, from, () => void told.push("told"));
  return { stream, told };
}

test("what an upload is: more than is on its way before anybody is asked, and no more than is read", () => {
  const declared = (bytes: number): boolean => isUpload({ "content-length": String(bytes) });
  expect([0, 65_535, 65_536, 64 * MIB, 64 * MIB + 1].map(declared)).toEqual([
    false,
    false,
    true,
    true,
    false,
  ]);
  expect(isUpload({})).toBe(false);
  expect(isUpload({ "content-length": "1000000", expect: "100-continue" })).toBe(false);
});

test("an answer is told once, when its upload is over, and not before", async () => {
  const lingering = new Http2Lingering();
  const { stream, told } = upload(lingering, "192.0.2.1");
  for (let piece = 0; piece < 100; piece += 1) {
    if (!stream.write(Buffer.alloc(65_536))) {
      await new Promise((resolve) => void stream.once("drain", resolve));
    }
  }
  expect([told, lingering.size]).toEqual([[], 1]);
  stream.end();
  await expect.poll(() => told).toEqual(["told"]);
  expect(lingering.size).toBe(0);
});

test("an upload that stops coming is told of", async () => {
  const lingering = new Http2Lingering();
  const { stream, told } = upload(lingering, "192.0.2.1");
  stream.write("a piece");
  await expect.poll(() => told, SILENT).toEqual(["told"]);
  expect(lingering.size).toBe(0);
  stream.end("the rest");
  await new Promise((resolve) => void stream.resume().once("end", resolve));
  expect(told).toEqual(["told"]);
});

test("a closed listener waits for none that goes on", async () => {
  const lingering = new Http2Lingering();
  const { stream, told } = upload(lingering, "192.0.2.1");
  const sending = setInterval(() => stream.write("a piece"), 100);
  lingering.close();
  await expect.poll(() => told, { timeout: 4_000 }).toEqual(["told"]);
  clearInterval(sending);
});

test("whoever leaves is told nothing, and leaves his room", async () => {
  const lingering = new Http2Lingering();
  const { stream, told } = upload(lingering, "192.0.2.1");
  stream.destroy();
  await new Promise((resolve) => void stream.once("close", resolve));
  expect([told, lingering.size]).toEqual([[], 0]);
});

test("room is made by the address with most, the longest held first", () => {
  const lingering = new Http2Lingering();
  const alone = upload(lingering, "192.0.2.1");
  const many = Array.from({ length: MOST - 1 }, () => upload(lingering, "192.0.2.2"));
  const last = upload(lingering, "192.0.2.3");
  expect([alone.told, many[0]?.told, many[1]?.told, last.told]).toEqual([[], ["told"], [], []]);
  expect(lingering.size).toBe(MOST);
});
