/** The memory that sockets read into: used again, and never while somebody holds a part of it. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { giveBack, ReadBuffers } from "../../../src/http1/read-buffers.ts";

const LARGE = 1_000_000;

/** Reads so many bytes of a body and hands them on. */
function read(buffers: ReadBuffers, count: number, bytesLeft = LARGE): Buffer {
  return buffers.lend(buffers.next(bytesLeft).subarray(0, count));
}

function overlap(left: Buffer, right: Buffer): boolean {
  if (left.buffer !== right.buffer) return false;
  const [leftEnd, rightEnd] = [left, right].map((part) => part.byteOffset + part.length);
  return left.byteOffset < (rightEnd ?? 0) && right.byteOffset < (leftEnd ?? 0);
}

describe("the memory of a body", () => {
  test("is read into again once it was given back", () => {
    const buffers = new ReadBuffers();
    const part = read(buffers, 65_536);
    giveBack(part);
    expect(overlap(buffers.next(LARGE), part)).toBe(true);
  });

  test("is not read into while a part of it is held", () => {
    const buffers = new ReadBuffers();
    const [first, second] = [read(buffers, 1_000), read(buffers, 1_000)];
    giveBack(second);
    for (let reads = 0; reads < 100; reads += 1) {
      expect(overlap(buffers.next(LARGE), first)).toBe(false);
      giveBack(read(buffers, 30_000));
    }
  });

  test("is not freed by giving back one part twice", () => {
    const buffers = new ReadBuffers();
    const [first, second] = [read(buffers, 1_000), read(buffers, 1_000)];
    giveBack(first);
    giveBack(first);
    buffers.leave();
    const others = Array.from({ length: 200 }, () => new ReadBuffers().next(LARGE));
    expect(others.filter((buffer) => overlap(buffer, second))).toEqual([]);
  });

  test("is another connection's after its own has left it", () => {
    const buffers = new ReadBuffers();
    const part = read(buffers, 65_536);
    buffers.leave();
    giveBack(part);
    expect(overlap(new ReadBuffers().next(LARGE), part)).toBe(true);
  });

  test("stays with those who never give it back", () => {
    const parts = Array.from({ length: 300 }, () => read(new ReadBuffers(), 65_536));
    const memory = new Set(parts.map((part) => part.buffer));
    expect(memory.size).toBe(300);
  });
});

describe("the memory that heads are read into", () => {
  test("is one for all connections", () => {
    const [left, right] = [new ReadBuffers(), new ReadBuffers()];
    expect(left.next(null).buffer).toBe(right.next(null).buffer);
  });

  test("is not that of what came with a head, though others were told before to read there", () => {
    const [buffers, other] = [new ReadBuffers(), new ReadBuffers()];
    const told = other.next(null);
    const read = buffers.next(null).fill("a").subarray(100, 60_000);
    const part = buffers.lend(read);
    expect(overlap(told, part)).toBe(false);
    told.fill("b");
    expect(part.toString()).toBe("a".repeat(59_900));
    expect(overlap(buffers.next(null), part)).toBe(false);
    giveBack(part);
  });

  test("is not lent with a copy", () => {
    const buffers = new ReadBuffers();
    const before = buffers.next(null);
    const copy = Buffer.from(before.subarray(0, 100));
    expect(buffers.lend(copy)).toBe(copy);
    expect(buffers.next(null).buffer).toBe(before.buffer);
  });
});

const action = fc.oneof(
  fc.record({
    does: fc.constant("read" as const),
    who: fc.nat(3),
    bytesLeft: fc.option(fc.integer({ min: 1, max: 200_000 })),
    share: fc.double({ min: 0.01, max: 1, noNaN: true }),
  }),
  fc.record({ does: fc.constant("give back" as const), which: fc.nat(50) }),
  fc.record({ does: fc.constant("leave" as const), who: fc.nat(3) }),
);

/** As a socket does it: where the next read goes is settled when the one before it is over. */
class Reading {
  readonly #buffers = new ReadBuffers();
  next = this.#buffers.next(null);

  read(share: number, bytesLeft: number | null): Buffer {
    const count = Math.max(1, Math.floor(this.next.length * share));
    const part = this.#buffers.lend(this.next.subarray(0, count));
    this.next = this.#buffers.next(bytesLeft);
    return part;
  }

  leave(): void {
    this.#buffers.leave();
    this.next = this.#buffers.next(null);
  }
}

test("whatever happens, nothing is read into what somebody holds", () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
      const connections = Array.from({ length: 4 }, () => new Reading());
      const held: Buffer[] = [];
      for (const each of actions) {
        if (each.does === "give back") {
          const [part] = held.splice(each.which, 1);
          if (part !== undefined) giveBack(part);
        } else if (each.does === "leave") {
          connections[each.who]?.leave();
        } else {
          const part = connections[each.who]?.read(each.share, each.bytesLeft);
          if (part !== undefined) held.push(part);
        }
        const clashes = connections.filter(({ next }) => held.some((part) => overlap(part, next)));
        expect(clashes).toEqual([]);
      }
      for (const part of held) giveBack(part);
    }),
    { numRuns: 1_000 },
  );
});
