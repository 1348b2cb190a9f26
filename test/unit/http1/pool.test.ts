/** Which connection a request goes to, and what becomes of connections. */
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { backend, onHead, rawBackend } from "../../integration/gateway/stage.ts";
import { ask, Course, dispatch, ManualClock, openPool, turns, until } from "./pool-stage.ts";

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/** Answers everything with `answer`; `seen` are the paths by connection. */
async function answering(answer: string | ((path: string, socket: Socket) => void) = ok) {
  const seen: string[][] = [];
  const sockets: Socket[] = [];
  const origin = await rawBackend((socket, number) => {
    const paths: string[] = [];
    seen.push(paths);
    sockets[number - 1] = socket;
    onHead(socket, (head) => {
      const path = head.split(" ")[1] ?? "";
      paths.push(path);
      if (typeof answer === "string") socket.write(answer, "latin1");
      else answer(path, socket);
    });
  });
  return { origin, seen, sockets };
}

/** A backend that answers when it is told to. */
async function holding() {
  const held = new Map<string, Socket>();
  const { origin, seen } = await answering((path, socket) => void held.set(path, socket));
  const release = async (path: string): Promise<void> => {
    await until(() => held.has(path));
    held.get(path)?.write(ok);
  };
  return { origin, seen, release };
}

describe("an answer", () => {
  test("is told call by call, a small one with a single piece of body", async () => {
    const { origin } = await answering(
      "HTTP/1.1 103 Hints\r\nA: 1\r\n\r\nHTTP/1.1 201 Made It\r\nb: 2\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\nT: 3\r\n\r\n",
    );
    const course = await ask(openPool(origin));
    expect(course.calls).toEqual(["start", "begin", "head", "data", "end"]);
    expect(course).toMatchObject({ status: 201, statusText: "Made It", body: "abc" });
    expect(course.lines).toEqual(["b", "2", "Transfer-Encoding", "chunked"]);
    expect(course.trailers).toEqual(["T", "3"]);
    const controller = await course.started;
    expect(controller.rawHeaders).toEqual(course.lines);
    expect(controller.rawTrailers).toEqual(["T", "3"]);
  });

  test.each<[number, (index: number) => string]>([
    [1, () => "x"],
    [300_000, (index) => String.fromCharCode(97 + (index % 26))],
  ])("of %i bytes arrives unchanged, however it is framed", async (length, character) => {
    const body = Array.from({ length }, (_, index) => character(index)).join("");
    const origin = await backend((request, response) => {
      if (request.url === "/length") response.setHeader("Content-Length", length);
      if (request.url === "/close") response.removeHeader("Transfer-Encoding");
      if (request.url === "/close") response.useChunkedEncodingByDefault = false;
      for (let at = 0; at < length; at += 70_000) response.write(body.slice(at, at + 70_000));
      response.end();
    });
    const pool = openPool(origin);
    for (const path of ["/length", "/chunked", "/close", "/length"]) {
      const course = await ask(pool, { path });
      expect([course.fault, course.body === body]).toEqual([null, true]);
    }
  });

  test("that keeps no buffer of another is not overwritten by it", async () => {
    const { origin } = await answering((path, socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n${path}`);
    });
    const pool = openPool(origin);
    const paths = Array.from({ length: 40 }, (_, index) => `/${1000 + index}`);
    const courses = [];
    for (const path of paths) courses.push(await ask(pool, { path }));
    expect(courses.map((course) => course.body)).toEqual(paths);
  });

  test("that is held is not overwritten by those of other connections, however large", async () => {
    const length = 40_000;
    const { origin } = await answering((path, socket) => {
      const body = (path.at(-1) ?? "").repeat(length);
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${body}`);
    });
    const pool = openPool(origin);
    // All of them are kept, and wait for a head at the same time.
    const names = ["a", "b", "c", "d", "e"];
    for (let round = 0; round < 3; round += 1) {
      const courses = await Promise.all(names.map((name) => ask(pool, { path: `/${name}` })));
      await turns(3);
      for (const [index, { body }] of courses.entries()) {
        expect(body === names[index]?.repeat(length)).toBe(true);
      }
    }
    expect(pool.counts.open).toBe(names.length);
  });

  test("to HEAD has no body, and the connection lives on", async () => {
    const { origin, seen } = await answering("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n");
    const pool = openPool(origin);
    for (const path of ["/1", "/2"]) {
      expect(await ask(pool, { method: "HEAD", path })).toMatchObject({ status: 200, fault: null });
      await turns(3);
    }
    expect(seen).toEqual([["/1", "/2"]]);
  });
});

describe("a kept connection", () => {
  test("is used again, the last one that became idle first", async () => {
    const { origin, seen, release } = await holding();
    const pool = openPool(origin);
    const [first, second] = [dispatch(pool, { path: "/1" }), dispatch(pool, { path: "/2" })];
    await release("/2");
    await second.ended;
    await release("/1");
    await first.ended;
    await turns(3);
    const [third, fourth] = [dispatch(pool, { path: "/3" }), dispatch(pool, { path: "/4" })];
    for (const path of ["/3", "/4"]) await release(path);
    await Promise.all([third.ended, fourth.ended]);
    const byFirst = new Map(seen.map((paths) => [paths[0], paths[1]]));
    expect(byFirst).toEqual(
      new Map([
        ["/1", "/3"],
        ["/2", "/4"],
      ]),
    );
  });

  test("is not used in the turn of the loop in which its answer ended", async () => {
    const { origin, seen } = await answering();
    const pool = openPool(origin);
    const first = dispatch(pool, { path: "/1" });
    const second = Promise.withResolvers<unknown>();
    first.reactions["end"] = () => second.resolve(ask(pool, { path: "/2" }));
    await second.promise;
    expect(seen).toEqual([["/1"], ["/2"]]);
  });

  test("on which something came that nobody asked for is given up", async () => {
    const { origin, seen, sockets } = await answering();
    const pool = openPool(origin);
    await ask(pool, { path: "/1" });
    await turns(3);
    expect(pool.counts).toEqual({ open: 1, idle: 1, waiting: 0 });
    sockets[0]?.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
    await until(() => pool.counts.open === 0);
    expect(await ask(pool, { path: "/2" })).toMatchObject({ body: "hi" });
    expect(seen).toEqual([["/1"], ["/2"]]);
  });

  test("with bytes that had not been read when a request came does not answer it with them", async () => {
    const { origin, seen, sockets } = await answering();
    const pool = openPool(origin);
    await ask(pool, { path: "/1" });
    await turns(3);
    sockets[0]?.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
    // They are in this process's kernel buffers now, and it has not been in its event loop since.
    const end = performance.now() + 20;
    while (performance.now() < end);
    expect(await ask(pool, { path: "/2" })).toMatchObject({ body: "hi" });
    expect(seen).toEqual([["/1"], ["/2"]]);
  });

  test.each([
    ["closes", ok.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")],
    ["has been old from the start", ok.replace("1.1", "1.0")],
    ["sends more than the answer", `${ok}x`],
    ["closes sooner than the margin", ok.replace("\r\n\r\n", "\r\nKeep-Alive: timeout=1\r\n\r\n")],
    ["may send a body with 304", "HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n"],
  ])("is not kept for a backend that %s", async (_, answer) => {
    const { origin, seen } = await answering(answer);
    const pool = openPool(origin);
    for (const path of ["/1", "/2"]) {
      expect((await ask(pool, { path })).fault).toBeNull();
      await turns(3);
    }
    expect(seen).toEqual([["/1"], ["/2"]]);
  });

  test("is not kept for a request that says so", async () => {
    const { origin, seen } = await answering();
    const pool = openPool(origin);
    for (const path of ["/1", "/2"]) {
      await ask(pool, { path, reset: true });
      await turns(3);
    }
    expect(seen).toEqual([["/1"], ["/2"]]);
  });

  test.each<[string, string, number, number]>([
    ["the pool", "", 4_000, 4_000],
    ["the backend, less a margin", "Keep-Alive: timeout=3\r\n", 4_000, 2_000],
    ["the pool, where the backend says more", "Keep-Alive: timeout=60\r\n", 4_000, 4_000],
  ])("is idle as long as %s says", async (_, line, keepAliveMs, expectedMs) => {
    const { origin, seen } = await answering(ok.replace("\r\n\r\n", `\r\n${line}\r\n`));
    const clock = new ManualClock();
    const pool = openPool(origin, { keepAliveMs, now: clock.now });
    await ask(pool, { path: "/1" });
    await turns(3);
    clock.ms += expectedMs - 1;
    await ask(pool, { path: "/2" });
    await turns(3);
    clock.ms += expectedMs;
    await ask(pool, { path: "/3" });
    expect(seen).toEqual([["/1", "/2"], ["/3"]]);
  });

  test("is closed when it has been idle for too long, though nobody asks for it", async () => {
    const { origin } = await answering();
    const clock = new ManualClock();
    const pool = openPool(origin, { now: clock.now });
    await ask(pool);
    clock.ms += 10_000;
    await until(() => pool.counts.open === 0);
  });
});

describe("a request that wants a new connection", () => {
  test("leaves the kept ones alone, and its own is kept for others", async () => {
    const { origin, seen } = await answering();
    const pool = openPool(origin);
    for (const [path, fresh] of [
      ["/1", false],
      ["/2", true],
      ["/3", false],
    ] as const) {
      await ask(pool, { path, fresh });
      await turns(3);
    }
    expect(seen).toEqual([["/1"], ["/2", "/3"]]);
  });

  test("takes the place of the kept one that was idle longest", async () => {
    const { origin, seen } = await answering();
    const pool = openPool(origin, { connections: 1, queue: 0 });
    await ask(pool, { path: "/1" });
    await turns(3);
    expect((await ask(pool, { path: "/2", fresh: true })).fault).toBeNull();
    expect(pool.counts.open).toBe(1);
    expect(seen).toEqual([["/1"], ["/2"]]);
  });
});

describe("when every connection is busy", () => {
  test("so many requests wait in their order, and the next is refused", async () => {
    const { origin, seen, release } = await holding();
    const pool = openPool(origin, { connections: 1, queue: 2 });
    const courses = ["/1", "/2", "/3", "/4"].map((path) => dispatch(pool, { path }));
    expect((await courses[3]?.ended)?.fault).toBe("saturated");
    expect(courses[3]?.calls).toEqual(["error"]);
    expect(pool.counts).toEqual({ open: 1, idle: 0, waiting: 2 });
    for (const [index, path] of ["/1", "/2", "/3"].entries()) {
      await release(path);
      expect(await courses[index]?.ended).toMatchObject({ fault: null });
    }
    expect(seen).toEqual([["/1", "/2", "/3"]]);
  });

  test("one that waits gets the place of one that dies, and may want it new", async () => {
    const { origin, seen } = await answering((path, socket) => {
      if (path === "/1") socket.destroy();
      else socket.write(ok);
    });
    const pool = openPool(origin, { connections: 1 });
    const courses = ["/1", "/2", "/3"].map((path) => dispatch(pool, { path, fresh: true }));
    const ended = await Promise.all(courses.map((course) => course.ended));
    expect(ended.map((course) => course.fault)).toEqual(["broken", null, null]);
    expect(seen.flat().sort()).toEqual(["/1", "/2", "/3"]);
  });

  test("one that waits too long is refused", async () => {
    const { origin, release } = await holding();
    const clock = new ManualClock();
    const pool = openPool(origin, { connections: 1, connectTimeoutMs: 2_000, now: clock.now });
    const running = dispatch(pool, { path: "/1" });
    await running.started;
    const late = dispatch(pool, { path: "/2" });
    await turns(2);
    clock.ms += 2_000;
    expect(await late.ended).toMatchObject({ fault: "saturated", calls: ["error"] });
    await release("/1");
    expect((await running.ended).fault).toBeNull();
  });
});

describe("one that waits for a connection", () => {
  test("waits as long as the queue may, whatever a connection may take to be made", async () => {
    const { origin, release } = await holding();
    const clock = new ManualClock();
    const pool = openPool(origin, { connections: 1, queueTimeoutMs: 5_000, now: clock.now });
    const running = dispatch(pool, { path: "/1" });
    await running.started;
    const [late, later] = [dispatch(pool, { path: "/2" }), dispatch(pool, { path: "/3" })];
    await turns(2);
    clock.ms += 4_999;
    await release("/1");
    await late.started;
    clock.ms += 1;
    expect(await later.ended).toMatchObject({ fault: "saturated", calls: ["error"] });
    await release("/2");
    expect((await late.ended).fault).toBeNull();
  });

  test("is given up by whoever asked for it, at no connection's cost", async () => {
    const { origin, seen, release } = await holding();
    const pool = openPool(origin, { connections: 1 });
    const running = dispatch(pool, { path: "/1" });
    await running.started;
    const [early, late] = [new Course({ path: "/2" }), new Course({ path: "/3" })];
    pool.dispatch(early.request, early).abort(new Error("enough"));
    const waiting = pool.dispatch(late.request, late);
    await turns(2);
    expect(pool.counts.waiting).toBe(1);
    waiting.abort(new Error("enough"));
    for (const course of [early, late]) {
      expect(await course.ended).toMatchObject({ fault: "enough", calls: ["error"] });
    }
    await release("/1");
    expect((await running.ended).fault).toBeNull();
    expect(pool.counts).toEqual({ open: 1, idle: 1, waiting: 0 });
    expect(seen).toEqual([["/1"]]);
  });
});

describe("a pool", () => {
  test("tells of connections that are made, and of those that cannot be", async () => {
    const { origin } = await answering();
    const pool = openPool(origin);
    const told: string[] = [];
    pool.on("connect", () => told.push("connect"));
    pool.on("connectionError", (error) => told.push(error.message));
    await ask(pool);
    expect(told).toEqual(["connect"]);
    const port = new URL(origin).port;
    const gone = openPool(`http://127.0.0.2:${port}`);
    gone.on("connectionError", (error) => told.push(error.message));
    const course = await ask(gone);
    expect(course).toMatchObject({ fault: "connect", calls: ["error"] });
    expect(told).toEqual(["connect", expect.stringContaining("ECONNREFUSED")]);
  });

  test("reaches a host by its name, and says the host with its port", async () => {
    const heads: string[] = [];
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        heads.push(head);
        socket.write(ok);
      });
    });
    const { port } = new URL(origin);
    expect((await ask(openPool(`http://localhost:${port}`))).fault).toBeNull();
    expect(heads[0]).toContain(`host: localhost:${port}\r\n`);
  });

  test.each(["ftp://a", "a", "", "//a"])("is not opened for %j", (origin) => {
    expect(() => openPool(origin)).toThrow(/no origin/);
  });

  test("that is closed lets requests finish, closes what is idle, and takes no more", async () => {
    const { origin, release } = await holding();
    const pool = openPool(origin, { connections: 2 });
    const idle = dispatch(pool, { path: "/1" });
    await release("/1");
    await idle.ended;
    await turns(3);
    const [running, waiting] = [
      dispatch(pool, { path: "/2", fresh: true }),
      dispatch(pool, { path: "/3" }),
    ];
    await running.started;
    const closed = pool.close();
    expect(pool.closed).toBe(true);
    expect((await ask(pool)).fault).toBe("closed");
    await release("/2");
    await release("/3");
    expect((await running.ended).fault).toBeNull();
    expect((await waiting.ended).fault).toBeNull();
    await closed;
    expect(pool.counts).toEqual({ open: 0, idle: 0, waiting: 0 });
  });

  test("that is destroyed cuts what runs and what waits", async () => {
    const { origin } = await holding();
    const pool = openPool(origin, { connections: 1 });
    const courses = ["/1", "/2"].map((path) => dispatch(pool, { path }));
    await courses[0]?.started;
    courses.push(dispatch(pool, { path: "/3" }));
    await pool.destroy();
    for (const course of courses) expect((await course.ended).fault).toBe("closed");
    expect(pool.counts).toEqual({ open: 0, idle: 0, waiting: 0 });
    await pool.close();
  });
});
