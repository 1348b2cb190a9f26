/** Bodies that are larger than anybody's buffers, sides that are slow, and sides that go away. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { gone, type Script, type Turn } from "./backend.ts";
import { HELLO, OVER_HTTP1 } from "./case.ts";
import { NoAnswer, type Ask, type Place } from "./client.ts";
import type { Protocol } from "./differences.ts";
import { Fronts } from "./fronts.ts";
import type { House } from "./house.ts";
import {
  contentOfParts,
  parts,
  standstill,
  until,
  visit,
  type Upload,
  type Visit,
} from "./visit.ts";
import { chunked } from "./wire.ts";

const MIB = 1024 * 1024;
const LARGE = 100 * MIB;
/** Linux lets the buffers of two connections grow up to 2 × (32 + 4) MiB; the gateway holds almost nothing. */
const HELD_AT_MOST = 80 * MIB;

const fronts = new Fronts();
beforeAll(() => fronts.open());
afterAll(() => fronts.close());

let played = 0;
function nextPath(): string {
  played += 1;
  return `/stream/${played}`;
}

/** Writes a large body as fast as the reader takes it. */
class Pump {
  /** Bytes that have left this process. */
  sent = (): number => 0;
  readonly #framing: "length" | "chunked";

  readonly #length: number;

  constructor(framing: "length" | "chunked", length: number) {
    this.#framing = framing;
    this.#length = length;
  }

  readonly script: Script = async ({ whole, socket, write }) => {
    await whole;
    // The connection may have served others before.
    const before = socket.bytesWritten;
    this.sent = () => socket.bytesWritten - socket.writableLength - before;
    const isChunked = this.#framing === "chunked";
    const line = isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${this.#length}`;
    write(`HTTP/1.1 200 OK\r\n${line}\r\n\r\n`);
    for (const part of parts(this.#length)) {
      const bytes = isChunked ? chunked(part, part.length).subarray(0, -5) : part;
      if (!write(bytes)) await once(socket, "drain");
    }
    if (isChunked) write("0\r\n\r\n");
  };
}

async function sendAll(visiting: Visit, length: number): Promise<void> {
  for (const part of parts(length)) await visiting.send(part);
  visiting.finish();
}

describe.each(Fronts.protocols)("over %s", (protocol) => {
  const isPlain = protocol === "HTTP/1.1";
  const front = (): Place & { readonly protocol: Protocol } => ({ ...house().front, protocol });
  const house = (): House => fronts.of(protocol);
  const open = (ask: Partial<Ask> & { readonly target: string }, upload?: Upload): Visit =>
    visit(front(), { method: upload === undefined ? "GET" : "POST", ...ask }, upload);

  test.each(isPlain ? (["length", "chunked"] as const) : (["chunked"] as const))(
    "a download of 100 MiB framed by %s waits for its reader, and is whole",
    async (framing) => {
      const target = nextPath();
      const pump = new Pump(framing, LARGE);
      house().backend.play(target, pump.script);
      const visiting = open({ target });
      await visiting.head;
      visiting.pause();
      const held = (await standstill(() => pump.sent())) - visiting.received;
      expect(held).toBeLessThan(HELD_AT_MOST);
      visiting.resume();
      const { content } = await visiting.reply;
      expect(content).toMatchObject({ length: LARGE, hash: contentOfParts(LARGE).hash });
      visiting.close();
    },
  );

  test.each(isPlain ? (["length", "chunked"] as const) : (["length"] as const))(
    "an upload of 100 MiB framed by %s waits for its reader, and is whole",
    async (framing) => {
      const target = nextPath();
      const begun = Promise.withResolvers<Socket>();
      const seen = house().backend.play(target, async ({ whole, socket, write }) => {
        socket.pause();
        begun.resolve(socket);
        await whole;
        write(HELLO);
      });
      const visiting = open({ target }, { framing, length: LARGE });
      const sending = sendAll(visiting, LARGE);
      const socket = await begun.promise;
      const held = await standstill(() => visiting.sent);
      expect(held).toBeLessThan(HELD_AT_MOST);
      socket.resume();
      await sending;
      expect((await visiting.reply).content.length).toBe(5);
      expect(seen.requests[0]?.content).toMatchObject({
        length: LARGE,
        hash: contentOfParts(LARGE).hash,
      });
      visiting.close();
    },
  );

  test("an answer may begin while its request is still being sent", async () => {
    const target = nextPath();
    const turn = Promise.withResolvers<Turn>();
    const seen = house().backend.play(target, async (arrived) => {
      arrived.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
      turn.resolve(arrived);
      await arrived.whole;
      arrived.write("6\r\nsecond\r\n0\r\n\r\n");
    });
    const visiting = open({ target }, { framing: "chunked", length: 0 });
    await visiting.send(Buffer.from("a part"));
    await visiting.head;
    await until(() => visiting.received === 5);
    expect(seen.requests).toEqual([]);
    await visiting.send(Buffer.from("another"));
    visiting.finish();
    expect((await visiting.reply).content.start.toString()).toBe("firstsecond");
    expect(seen.requests[0]?.content.start.toString()).toBe("a partanother");
    visiting.close();
  });

  test("a client that leaves before its answer cancels the request", async () => {
    const target = nextPath();
    const turn = Promise.withResolvers<Turn>();
    house().backend.play(target, (arrived) => turn.resolve(arrived));
    const visiting = open({ target });
    visiting.reply.catch(() => undefined);
    const { socket } = await turn.promise;
    visiting.abort();
    await gone(socket);
    visiting.close();
  });

  test("a client that leaves in the middle of its answer cancels the request", async () => {
    const target = nextPath();
    const turn = Promise.withResolvers<Turn>();
    house().backend.play(target, (arrived) => {
      arrived.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part");
      turn.resolve(arrived);
    });
    const visiting = open({ target });
    visiting.reply.catch(() => undefined);
    await until(() => visiting.received === 6);
    visiting.abort();
    await gone((await turn.promise).socket);
    visiting.close();
  });

  test("a client that leaves without reading cancels the request", async () => {
    const target = nextPath();
    const turn = Promise.withResolvers<Turn>();
    const pump = new Pump("length", LARGE);
    house().backend.play(target, (arrived) => {
      turn.resolve(arrived);
      return pump.script(arrived);
    });
    const visiting = open({ target });
    visiting.reply.catch(() => undefined);
    await visiting.head;
    visiting.pause();
    await standstill(() => pump.sent());
    visiting.abort();
    await gone((await turn.promise).socket);
    visiting.close();
  });

  test.each([1, 200_000])(
    "a client that leaves after %i bytes of its upload is not taken for one that has sent all",
    async (length) => {
      const target = nextPath();
      const turn = Promise.withResolvers<Turn>();
      const seen = house().backend.play(target, (arrived) => turn.resolve(arrived));
      const visiting = open({ target }, { framing: "length", length: 300_000 });
      visiting.reply.catch(() => undefined);
      await visiting.send(Buffer.alloc(length));
      const { socket } = await turn.promise;
      visiting.abort();
      await gone(socket);
      expect(seen.requests).toEqual([]);
      visiting.close();
    },
  );

  const CUT: readonly (readonly [string, string])[] = [
    ["a length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part"],
    ["chunks, within one", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na part"],
    ["chunks, between two", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\n"],
    [
      "chunks, before the last line",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\n0\r\n",
    ],
    ["a length, by HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\na part"],
    ["no more than its end, by a reset", "HTTP/1.0 200 OK\r\n\r\na part"],
  ];
  // Over TLS it is `close_notify` that tells the end of an answer to HTTP/1.0: see `tls-end.test.ts`.
  const versions = isPlain ? (["1.1", "1.0"] as const) : (["1.1"] as const);
  test.each(
    CUT.flatMap(([what, bytes]) =>
      versions.flatMap((version) =>
        (["end", "reset"] as const)
          .filter((how) => how === "reset" || !what.includes("reset"))
          .map((how) => ({ what, bytes, version, how })),
      ),
    ),
  )(
    "an answer with $what that the backend cuts off by $how never looks whole (client of $version)",
    async ({ bytes, version, how }) => {
      const target = nextPath();
      const turn = Promise.withResolvers<Turn>();
      house().backend.play(target, (arrived) => {
        arrived.write(bytes);
        turn.resolve(arrived);
      });
      const visiting = open({ target, version });
      const { socket } = await turn.promise;
      await until(() => visiting.received === 6);
      if (how === "end") socket.end();
      else socket.resetAndDestroy();
      await expect(visiting.reply).rejects.toThrow(NoAnswer);
      visiting.close();
    },
  );

  test("a backend that dies within an upload is a 502", async () => {
    const target = nextPath();
    house().backend.play(target, ({ socket }) => void socket.resetAndDestroy());
    const visiting = open({ target }, { framing: "length", length: 1_000_000 });
    // Nobody takes all of it.
    void visiting.send(Buffer.alloc(500_000)).catch(() => undefined);
    const { startLine } = await visiting.reply;
    expect(startLine).toMatch(/ 502\b/);
    visiting.close();
  });

  test("an answer that comes before its request is whole is passed on", async () => {
    const target = nextPath();
    house().backend.play(target, ({ write, socket }) => {
      write("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmuch");
      socket.end();
    });
    const visiting = open({ target }, { framing: "length", length: 1_000_000 });
    void visiting.send(Buffer.alloc(100_000)).catch(() => undefined);
    const { startLine, content } = await visiting.reply;
    expect(startLine).toMatch(/ 413\b/);
    expect(content.start.toString()).toBe("much");
    visiting.close();
  });
});

// As before nginx: a client that closes its connection can be seen to go only as one that ends its own side.
test.each(OVER_HTTP1)(
  "over %s a client that ends its side counts as gone: no half answer looks whole",
  async (protocol) => {
    const { backend, front } = fronts.of(protocol);
    const target = nextPath();
    const turn = Promise.withResolvers<Turn>();
    backend.play(target, (arrived) => {
      arrived.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part");
      turn.resolve(arrived);
    });
    const visiting = visit({ ...front, protocol }, { method: "GET", target });
    await until(() => visiting.received === 6);
    visiting.finish();
    await expect(visiting.reply).rejects.toThrow(NoAnswer);
    await gone((await turn.promise).socket);
    visiting.close();
  },
);
