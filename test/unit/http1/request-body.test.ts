/** What arrives at the backend of a request's body, and what happens when it does not go as announced. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { PassThrough, Readable, Transform } from "node:stream";
import { describe, expect, test } from "vitest";
import type { H1Request } from "../../../src/http1/exchange.ts";
import { backend, onHead, rawBackend } from "../../integration/gateway/stage.ts";
import { ask, dispatch, looks, ManualClock, openPool, turns, until } from "./pool-stage.ts";

const large = Buffer.alloc(3_000_000, "0123456789abcdef!");

async function bytesOf(message: IncomingMessage, done: (bytes: Buffer) => void): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  done(Buffer.concat(chunks));
}

/** Answers with how the body was framed, and with the body. */
const echo = () =>
  backend((request, response) => {
    void bytesOf(request, (bytes) => {
      const { "content-length": length = "-", "transfer-encoding": coding = "-" } = request.headers;
      response.setHeader("Framing", `${length} ${coding}`);
      response.setHeader("Trailers", request.rawTrailers.join(" "));
      response.end(bytes);
    });
  });

/** All bytes that arrived, on each connection. */
async function recording(answer = "") {
  const received: string[] = [];
  const sockets: Socket[] = [];
  const origin = await rawBackend((socket, number) => {
    sockets.push(socket);
    received[number - 1] = "";
    socket.on("data", (chunk) => (received[number - 1] += chunk.toString("latin1")));
    onHead(socket, () => void socket.write(answer));
  });
  return { origin, received, sockets };
}

const post = (body: H1Request["body"], length?: number): Partial<H1Request> => ({
  method: "POST",
  path: "/p",
  headers: length === undefined ? [] : ["Content-Length", String(length)],
  body,
});

/** A stream in pieces of many sizes, some of them empty. */
const pieces = (body: Buffer, size: number) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size);
    })(),
    { objectMode: false },
  );

describe("a body", () => {
  const small = Buffer.from("\0\xff small", "latin1");
  const cases: [string, () => Partial<H1Request>, Buffer, string][] = [
    ["none", () => post(null), Buffer.of(), "0 -"],
    ["a small buffer", () => post(small), small, `${small.length} -`],
    ["a large buffer", () => post(large), large, `${large.length} -`],
    [
      "a buffer of one write",
      () => post(large.subarray(0, 16_384)),
      large.subarray(0, 16_384),
      "16384 -",
    ],
    [
      "a buffer of two",
      () => post(large.subarray(0, 16_385)),
      large.subarray(0, 16_385),
      "16385 -",
    ],
    [
      "a counted stream",
      () => post(pieces(large, 50_000), large.length),
      large,
      `${large.length} -`,
    ],
    ["a counted stream of nothing", () => post(Readable.from([]), 0), Buffer.of(), "0 -"],
    ["a stream in chunks", () => post(pieces(large, 70_001)), large, "- chunked"],
    ["a stream of single bytes", () => post(pieces(small, 1)), small, "- chunked"],
    ["a stream of nothing", () => post(Readable.from([])), Buffer.of(), "0 -"],
    [
      "a stream of texts",
      () => post(Readable.from(["\u20ac", "", "b"])),
      Buffer.from("\u20acb"),
      "- chunked",
    ],
  ];

  test.each(cases)(
    "of %s arrives as it is, and the connection lives on",
    async (_, request, body, framing) => {
      const pool = openPool(await echo());
      for (let round = 0; round < 2; round += 1) {
        const course = await ask(pool, request());
        expect([course.fault, course.status]).toEqual([null, 200]);
        expect(Buffer.concat(course.chunks).equals(body)).toBe(true);
        expect(course.lines[course.lines.indexOf("Framing") + 1]).toBe(framing);
        await turns(3);
        expect(pool.counts).toMatchObject({ open: 1, idle: 1 });
      }
    },
  );

  test("in chunks may have trailers, which know what was sent", async () => {
    const hash = createHash("sha256");
    const body = pieces(large, 70_001).pipe(
      new Transform({
        transform(chunk: Buffer, _encoding, done) {
          hash.update(chunk);
          done(null, chunk);
        },
      }),
    );
    const expected = createHash("sha256").update(large).digest("hex");
    const origin = await echo();
    const trailers = () => ["X-Sum", hash.digest("hex")];
    const course = await ask(openPool(origin), { ...post(body), trailers });
    expect(course.lines[course.lines.indexOf("Trailers") + 1]).toBe(`X-Sum ${expected}`);
    const empty = { ...post(Readable.from([])), trailers: () => ["X-Sum", "-"] };
    const none = await ask(openPool(origin), empty);
    expect(none.lines[none.lines.indexOf("Trailers") + 1]).toBe("X-Sum -");
  });

  test("leaves its first bytes with the head, and nothing before them", async () => {
    const { origin, received } = await recording("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    const body = new PassThrough();
    const course = dispatch(openPool(origin), post(body, 2));
    await course.started;
    await turns(20);
    expect(received.join("")).toBe("");
    body.end("hi");
    expect((await course.ended).fault).toBeNull();
    expect(received[0]).toMatch(/^POST \/p HTTP\/1\.1\r\n[^]*content-length: 2\r\n\r\nhi$/);
  });

  test("is read no faster than the backend takes it", async () => {
    const { origin, sockets } = await recording();
    const limit = 64 * 1024 * 1024;
    let sent = 0;
    // It has an end: a sender that did not wait would fill the memory before anybody could stop it.
    const body = new Readable({
      read() {
        sent += 65_536;
        this.push(sent > limit ? null : Buffer.alloc(65_536));
      },
    });
    const course = dispatch(openPool(origin), post(body));
    await until(() => sockets.length === 1);
    sockets[0]?.pause();
    let before = -1;
    while (before !== sent) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(sent).toBeLessThan(limit);
    sockets[0]?.resume();
    await until(() => sent > before);
    (await course.started).abort(new Error("enough"));
    expect(body.destroyed).toBe(true);
  });
});

describe("a body that breaks its word", () => {
  test.each<[string, () => Partial<H1Request>]>([
    ["with more bytes than announced", () => post(Readable.from([Buffer.from("abc")]), 2)],
    ["with fewer", () => post(Readable.from([Buffer.from("a")]), 2)],
    [
      "with a trailer that is none",
      () => ({ ...post(Readable.from([Buffer.from("a")])), trailers: () => ["A\n", "b"] }),
    ],
  ])("%s cuts the connection", async (_, request) => {
    const { origin, received, sockets } = await recording();
    const pool = openPool(origin);
    const course = await ask(pool, request());
    expect(course.fault).toBe("request");
    expect(pool.counts.open).toBe(0);
    await until(() => sockets[0]?.readableEnded !== false || sockets[0].destroyed);
    // Never so many bytes that the request would look whole.
    expect(received[0] ?? "").not.toMatch(/\r\n\r\n(?:ab|[^]*0\r\n\r\n)/);
  });

  test("that fails is told as the reason, wherever the request is", async () => {
    const { origin } = await recording();
    const pool = openPool(origin, { connections: 1 });
    const [running, waiting] = [new PassThrough(), new PassThrough()];
    const courses = [dispatch(pool, post(running)), dispatch(pool, post(waiting))];
    await courses[0]?.started;
    await turns(3);
    expect(pool.counts).toMatchObject({ open: 1, waiting: 1 });
    const faults = [new Error("one"), new Error("two")];
    waiting.destroy(faults[1]);
    running.destroy(faults[0]);
    for (const [index, course] of courses.entries()) {
      expect((await course.ended).error).toBe(faults[index]);
    }
    expect(pool.counts).toEqual({ open: 0, idle: 0, waiting: 0 });
  });

  test("that breaks off without a word cuts the connection", async () => {
    const { origin } = await recording();
    const pool = openPool(origin);
    const body = new PassThrough();
    const course = dispatch(pool, post(body));
    await course.started;
    body.write("a");
    await turns(3);
    body.destroy();
    expect((await course.ended).fault).toBe("request");
    const dead = new PassThrough();
    dead.destroy();
    expect((await ask(pool, post(dead))).fault).toBe("request");
    expect(pool.counts.open).toBe(0);
  });

  test("is given up with its exchange, and may fail afterwards", async () => {
    const { origin } = await recording();
    const bodies = [new PassThrough(), new PassThrough(), new PassThrough()];
    const pool = openPool(origin, { connections: 1, queue: 1 });
    const courses = bodies.map((body) => dispatch(pool, post(body)));
    await turns(3);
    for (const course of courses) void course.started.then((held) => held.abort(new Error("no")));
    await pool.destroy();
    for (const course of courses) await course.ended;
    expect(bodies.map((body) => body.destroyed)).toEqual([true, true, true]);
    for (const body of bodies) body.emit("error", new Error("late"));
  });
});

describe("an answer that comes before the body has been sent", () => {
  const early = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";

  test("is the answer; then the connection is cut and the body given up", async () => {
    const { origin, sockets } = await recording(early);
    const pool = openPool(origin);
    const body = new PassThrough();
    const course = dispatch(pool, post(body));
    body.write("a");
    expect(await course.ended).toMatchObject({ status: 413, body: "no", fault: null });
    expect(body.destroyed).toBe(true);
    expect(pool.counts.open).toBe(0);
    await until(() => sockets[0]?.readableEnded !== false || sockets[0].destroyed);
  });

  test("and refuses it for good stops the body before the answer's end", async () => {
    const refusal = early.replace("\r\n\r\nno", "\r\nConnection: close\r\n\r\nn");
    const { origin, sockets } = await recording(refusal);
    const body = new PassThrough();
    const course = dispatch(openPool(origin), post(body));
    body.write("a");
    await course.begun;
    expect(body.destroyed).toBe(true);
    sockets[0]?.write("o");
    expect(await course.ended).toMatchObject({ status: 413, body: "no", fault: null });
  });

  test("cuts the connection where a buffer has not left it, too", async () => {
    const { origin, sockets } = await recording();
    const pool = openPool(origin);
    const course = dispatch(pool, post(Buffer.alloc(64 * 1024 * 1024)));
    await until(() => sockets.length === 1);
    sockets[0]?.pause();
    sockets[0]?.write(early);
    expect(await course.ended).toMatchObject({ status: 413, body: "no", fault: null });
    expect(pool.counts.open).toBe(0);
  });

  test("and goes on beside it is read beside it", async () => {
    const origin = await backend((request, response) => void request.pipe(response));
    const body = new PassThrough();
    const pool = openPool(origin);
    const course = dispatch(pool, post(body));
    for (const text of ["one", "two", "three"]) {
      body.write(text);
      await until(() => course.body.endsWith(text));
    }
    body.end();
    expect(await course.ended).toMatchObject({ body: "onetwothree", fault: null });
    await turns(3);
    expect(pool.counts).toMatchObject({ open: 1, idle: 1 });
  });
});

describe("time for a body", () => {
  test("ends when nothing moves, begins anew when something does, and then the answer's begins", async () => {
    const { origin, received } = await recording();
    const clock = new ManualClock();
    const times = { idleTimeoutMs: 3_000, responseTimeoutMs: 5_000, now: clock.now };
    const pool = openPool(origin, times);
    const [stopping, ending] = [new PassThrough(), new PassThrough()];
    const courses = [dispatch(pool, post(stopping)), dispatch(pool, post(ending))];
    for (const course of courses) await course.started;
    for (const text of ["a", "b"]) {
      clock.ms += times.idleTimeoutMs - 1;
      for (const body of [stopping, ending]) body.write(text);
      await until(() => received.every((bytes) => bytes.includes(`1\r\n${text}`)));
    }
    ending.end();
    await until(() => received.some((bytes) => bytes.includes("0\r\n\r\n")));
    clock.ms += times.idleTimeoutMs;
    expect((await courses[0]?.ended)?.fault).toBe("idle-timeout");
    expect(stopping.destroyed).toBe(true);
    clock.ms += times.responseTimeoutMs - times.idleTimeoutMs - 1;
    await looks();
    expect(courses[1]?.error).toBeNull();
    clock.ms += 1;
    expect((await courses[1]?.ended)?.fault).toBe("head-timeout");
  });
});
