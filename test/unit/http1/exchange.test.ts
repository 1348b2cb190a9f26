/** What a handler can do to an exchange, what a backend can do to it, and how long each may take. */
import { describe, expect, test } from "vitest";
import type { Socket } from "node:net";
import { backend, onHead, rawBackend } from "../../integration/gateway/stage.ts";
import { ask, dispatch, looks, ManualClock, openPool, turns, until } from "./pool-stage.ts";

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/** Sends `text` for every request head, and then leaves the connection to the test. */
async function sending(text: string) {
  const sockets: Socket[] = [];
  const origin = await rawBackend((socket) => {
    sockets.push(socket);
    onHead(socket, () => void socket.write(text, "latin1"));
  });
  return { origin, sockets };
}

describe("an exchange that is given up", () => {
  const cause = new Error("no more");

  test("before its turn is never sent", async () => {
    const { origin, sockets } = await sending(ok);
    const pool = openPool(origin);
    await ask(pool);
    await turns(3);
    const course = dispatch(pool);
    course.reactions["start"] = (controller) => controller.abort(cause);
    expect((await course.ended).calls).toEqual(["start", "error"]);
    expect(course.error).toBe(cause);
    expect(await course.started).toMatchObject({ aborted: true, reason: cause });
    expect(sockets.length).toBe(1);
  });

  test("before the head cuts the connection", async () => {
    const { origin, sockets } = await sending("");
    const pool = openPool(origin);
    const course = dispatch(pool);
    await until(() => sockets.length === 1);
    const controller = await course.started;
    const closed = new Promise((resolve) => sockets[0]?.once("close", resolve));
    controller.abort(cause);
    controller.abort(new Error("again"));
    expect(course.calls).toEqual(["start", "error"]);
    await closed;
    expect(pool.counts.open).toBe(0);
  });

  test.each(["head", "data"])("at its %s is told nothing more of the answer", async (call) => {
    const { origin } = await sending(ok);
    const pool = openPool(origin);
    const course = dispatch(pool);
    course.reactions[call] = (controller) => controller.abort(cause);
    await course.ended;
    await turns(3);
    const before = ["start", "begin", "head", "data"];
    expect(course.calls).toEqual([...before.slice(0, before.indexOf(call) + 1), "error"]);
    expect(pool.counts.open).toBe(0);
  });

  test("after its end changes nothing", async () => {
    const { origin } = await sending(ok);
    const pool = openPool(origin);
    const course = dispatch(pool);
    course.reactions["end"] = (controller) => controller.abort(cause);
    await course.ended;
    expect(course.calls.at(-1)).toBe("end");
    const controller = await course.started;
    controller.pause();
    controller.resume();
    expect(controller).toMatchObject({ aborted: false, paused: false, reason: null });
    await turns(3);
    expect(pool.counts).toMatchObject({ open: 1, idle: 1 });
  });

  test.each(["start", "head", "data", "end"])(
    "by what its handler throws at its %s",
    async (call) => {
      const { origin } = await sending(ok);
      const pool = openPool(origin);
      const course = dispatch(pool);
      course.reactions[call] = () => {
        throw cause;
      };
      await course.ended;
      expect(course.error).toBe(cause);
      if (call !== "end") expect(pool.counts.open).toBe(0);
    },
  );
});

describe("an answer that is held", () => {
  test("is not read on until it is let go, and arrives whole", async () => {
    const body = Buffer.alloc(8 * 1024 * 1024, "0123456789abcdef");
    let isFlushed = false;
    const origin = await backend((_, response) => {
      response.setHeader("Content-Length", body.length);
      response.end(body, () => (isFlushed = true));
    });
    const course = dispatch(openPool(origin));
    course.reactions["data"] = (controller) => controller.pause();
    const controller = await course.started;
    await until(() => controller.paused);
    for (let rounds = 0; rounds < 20; rounds += 1) {
      const { length } = course.chunks;
      await new Promise((resolve) => setTimeout(resolve, 2));
      expect(course.chunks.length).toBe(length);
      controller.resume();
      await until(() => controller.paused);
    }
    expect(isFlushed).toBe(false);
    course.reactions["data"] = () => {};
    controller.resume();
    expect((await course.ended).fault).toBeNull();
    expect(Buffer.concat(course.chunks).equals(body)).toBe(true);
  });

  test("from its head on, outside of a call, and let go again", async () => {
    const { origin, sockets } = await sending("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
    const course = dispatch(openPool(origin));
    await course.begun;
    const controller = await course.started;
    controller.pause();
    sockets[0]?.write("abcd");
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(course.chunks).toEqual([]);
    controller.resume();
    expect((await course.ended).body).toBe("abcd");
  });
});

describe("a backend that breaks off", () => {
  test.each<[string, string]>([
    ["nothing", ""],
    ["half a head", "HTTP/1.1 200 O"],
    ["half a body", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"],
    ["half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab"],
    ["no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"],
  ])("after %s has not answered", async (_, text) => {
    for (const end of ["destroy", "resetAndDestroy"] as const) {
      const { origin, sockets } = await sending(text);
      const course = dispatch(openPool(origin));
      await until(() => sockets.length === 1);
      if (text.includes("\r\n\r\n")) await course.begun;
      else await course.started.then(() => turns(5));
      sockets[0]?.[end]();
      expect((await course.ended).fault).toBe("broken");
    }
  });

  test("ends an answer that has no length, if it ends it in order", async () => {
    const text = "HTTP/1.1 200 OK\r\n\r\nall";
    for (const [end, fault] of [
      ["end", null],
      ["resetAndDestroy", "broken"],
    ] as const) {
      const { origin, sockets } = await sending(text);
      const course = dispatch(openPool(origin));
      await until(() => course.body === "all");
      sockets[0]?.[end]();
      expect((await course.ended).fault).toBe(fault);
    }
  });

  test("or speaks another protocol, is malformed, and its connection is cut", async () => {
    const { origin, sockets } = await sending("SSH-2.0-OpenSSH_9.2\r\n");
    const course = await ask(openPool(origin));
    expect(course.error).toMatchObject({ code: "malformed", rule: "status-line" });
    await until(() => sockets[0]?.destroyed === true || sockets[0]?.readableEnded === true);
  });
});

describe("time", () => {
  const limits = {
    connectTimeoutMs: 1_000,
    responseTimeoutMs: 2_000,
    idleTimeoutMs: 3_000,
    pauseTimeoutMs: 4_000,
  };

  const timed = (origin: string) => {
    const clock = new ManualClock();
    return { clock, pool: openPool(origin, { ...limits, now: clock.now }) };
  };

  test("to connect ends", async () => {
    // Nothing answers there (RFC 5737), or the network says at once that it is not there.
    const { clock, pool } = timed("http://192.0.2.1:81");
    const failed: string[] = [];
    pool.on("connectionError", (error) => failed.push(error.name));
    const course = dispatch(pool);
    await turns(3);
    clock.ms += limits.connectTimeoutMs;
    expect((await course.ended).fault).toMatch(/^connect/);
    expect(failed).toEqual(["H1Fault"]);
  });

  test("to the head ends, however many interim answers and bytes come", async () => {
    const { origin, sockets } = await sending("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200");
    const { clock, pool } = timed(origin);
    const course = dispatch(pool);
    await until(() => course.calls.includes("begin"));
    clock.ms += limits.responseTimeoutMs - 1;
    sockets[0]?.write(" OK");
    await looks();
    expect(course.calls).toEqual(["start", "begin"]);
    clock.ms += 1;
    expect((await course.ended).fault).toBe("head-timeout");
  });

  test("without a byte of the body ends; with one it begins anew", async () => {
    const { origin, sockets } = await sending("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    const { clock, pool } = timed(origin);
    const course = dispatch(pool);
    await course.begun;
    for (let bytes = 1; bytes <= 2; bytes += 1) {
      clock.ms += limits.idleTimeoutMs - 1;
      sockets[0]?.write("a");
      await until(() => course.body.length === bytes);
    }
    clock.ms += limits.idleTimeoutMs;
    expect((await course.ended).fault).toBe("idle-timeout");
  });

  test("runs while an answer is held", async () => {
    const { origin } = await sending("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
    const { clock, pool } = timed(origin);
    const course = dispatch(pool);
    course.reactions["data"] = (controller) => controller.pause();
    await course.begun;
    clock.ms += limits.pauseTimeoutMs - 1;
    await looks();
    expect(course.error).toBeNull();
    clock.ms += 1;
    expect((await course.ended).fault).toBe("pause-timeout");
  });

  test("begins anew when an answer is let go", async () => {
    const { origin } = await sending("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
    const { clock, pool } = timed(origin);
    const course = dispatch(pool);
    course.reactions["data"] = (controller) => controller.pause();
    await course.begun;
    clock.ms += limits.pauseTimeoutMs - 1;
    (await course.started).resume();
    clock.ms += limits.idleTimeoutMs - 1;
    await looks();
    expect(course.error).toBeNull();
    clock.ms += 1;
    expect((await course.ended).fault).toBe("idle-timeout");
  });
});
