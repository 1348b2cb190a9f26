import { once } from "node:events";
import { describe, expect, it } from "vitest";
import {
  HeldBytes,
  HeldResponse,
  MAX_HELD_BYTES,
  MAX_HELD_BYTES_OF_ALL,
} from "../../../src/gateway/held-response.ts";

const MEBIBYTE = Buffer.alloc(MAX_HELD_BYTES);

describe("an answer that is held", () => {
  it("is whole once it has ended, and takes room until it is given", async () => {
    const room = new HeldBytes();
    const held = new HeldResponse("GET", room);
    held.writeHead(200, "OK", ["Content-Type", "text/plain", "Set-Cookie", "a=1"]);
    const part = Buffer.from("fi");
    let isCopied = false;
    expect(held.write(part, () => (isCopied = true))).toBe(true);
    // The memory is somebody else's again.
    part.fill(0);
    expect(isCopied).toBe(true);
    expect(held.whole).toBeNull();
    held.end("ne", "latin1");
    await once(held, "close");
    expect(held.whole).toEqual({
      status: 200,
      headers: [
        ["Content-Type", "text/plain"],
        ["Set-Cookie", "a=1"],
      ],
      body: Buffer.from("fine"),
    });
    expect(room.taken).toBe(4);
    held.free();
    held.free();
    expect(room.taken).toBe(0);
  });

  it.each([
    ["stream", ["Content-Type", "text/event-stream; charset=utf-8"]],
    ["too-large", ["Content-Length", String(MAX_HELD_BYTES + 1)]],
  ])("is not one that says that it is a %s", async (why, lines) => {
    const held = new HeldResponse("GET", new HeldBytes());
    held.writeHead(200, lines);
    await once(held, "close");
    expect([held.why, held.whole, held.writableFinished]).toEqual([why, null, false]);
  });

  it("is as large as that where it has no body", () => {
    const held = new HeldResponse("HEAD", new HeldBytes());
    held.writeHead(200, ["Content-Length", String(MAX_HELD_BYTES + 1)]);
    held.end();
    expect(held.whole?.status).toBe(200);
  });

  it("breaks off where it turns out too large, and takes no more room", async () => {
    const room = new HeldBytes();
    const held = new HeldResponse("GET", room);
    held.writeHead(200, []);
    held.write(MEBIBYTE);
    expect(room.taken).toBe(MAX_HELD_BYTES);
    held.write(Buffer.from("a"));
    await once(held, "close");
    held.write(MEBIBYTE);
    held.end("b");
    expect([held.why, held.whole, room.taken]).toEqual(["too-large", null, 0]);
  });

  it("has its part of what all of them may take", () => {
    const room = new HeldBytes();
    const all = Array.from({ length: MAX_HELD_BYTES_OF_ALL / MAX_HELD_BYTES }, () => {
      const held = new HeldResponse("GET", room);
      held.writeHead(200, []);
      held.end(MEBIBYTE);
      return held;
    });
    expect(all.every(({ whole }) => whole !== null)).toBe(true);
    const late = new HeldResponse("GET", room);
    late.writeHead(200, []);
    late.end("a");
    expect([late.why, late.whole]).toEqual(["crowded", null]);
    for (const held of all) held.free();
    expect(room.taken).toBe(0);
  });
});
