/** A kept connection that dies as it is used again: what is sent once more, and what never is. */
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { H1Request } from "../../../src/http1/exchange.ts";
import { onHead, rawBackend } from "../../integration/gateway/stage.ts";
import { ask, openPool, turns } from "./pool-stage.ts";

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const noBody = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";

/** Answers the first request of each connection; what it does to the second is `ending`. */
async function dying(ending: "fin" | "reset" | "part", answered = Number.POSITIVE_INFINITY) {
  const seen: string[] = [];
  const origin = await rawBackend((socket, number) => {
    let requests = 0;
    onHead(socket, (head) => {
      requests += 1;
      const [method = "", path] = head.split(" ");
      seen.push(`${number} ${method} ${path}`);
      if (requests === 1 && number <= answered) socket.write(method === "HEAD" ? noBody : ok);
      else if (ending === "reset") socket.resetAndDestroy();
      else socket.end(ending === "part" ? "H" : "");
    });
  });
  return { origin, seen };
}

/** The second request of a pool that has one kept connection. */
async function second(origin: string, request: Partial<H1Request>) {
  const pool = openPool(origin);
  expect((await ask(pool, { path: "/1" })).fault).toBeNull();
  await turns(3);
  return ask(pool, { path: "/2", ...request });
}

describe("a request on a kept connection that dies without a byte of an answer", () => {
  test.each(["GET", "HEAD", "OPTIONS", "TRACE"])("is sent once more: %s", async (method) => {
    for (const ending of ["fin", "reset"] as const) {
      const { origin, seen } = await dying(ending);
      const course = await second(origin, { method });
      expect(course).toMatchObject({ status: 200, fault: null });
      expect(course.calls.filter((call) => call === "start")).toEqual(["start"]);
      expect(seen).toEqual(["1 GET /1", `1 ${method} /2`, `2 ${method} /2`]);
    }
  });

  test.each<[string, Partial<H1Request>]>([
    ["POST", { method: "POST" }],
    ["DELETE, which is idempotent and not known to be meant so", { method: "DELETE" }],
    ["a GET that must not be asked twice", { idempotent: false }],
    ["a GET with a body", { body: Buffer.from("hi") }],
    [
      "a PUT with a body that may be asked twice",
      { method: "PUT", body: Buffer.from("hi"), idempotent: true },
    ],
  ])("is not: %s", async (_, request) => {
    const { origin, seen } = await dying("reset");
    expect((await second(origin, request)).fault).toBe("broken");
    expect(seen.length).toBe(2);
  });

  test("is sent once more where the caller says that it may be", async () => {
    const { origin, seen } = await dying("fin");
    const course = await second(origin, { method: "DELETE", idempotent: true });
    expect(course.fault).toBeNull();
    expect(seen).toEqual(["1 GET /1", "1 DELETE /2", "2 DELETE /2"]);
  });

  test("is not sent a third time", async () => {
    const { origin, seen } = await dying("reset", 1);
    expect((await second(origin, {})).fault).toBe("broken");
    expect(seen).toEqual(["1 GET /1", "1 GET /2", "2 GET /2"]);
  });
});

describe("a request of which not a byte has left when its connection turns out to be dead", () => {
  test.each<[string, Partial<H1Request>]>([
    ["POST", { method: "POST" }],
    ["POST with a body", { method: "POST", body: Buffer.from("hi") }],
    ["POST with a large body", { method: "POST", body: Buffer.alloc(3_000_000) }],
    ["a GET that must not be asked twice", { idempotent: false }],
  ])("is sent on a new one: %s", async (_, request) => {
    const sockets: Socket[] = [];
    const seen: string[] = [];
    const origin = await rawBackend((socket, number) => {
      sockets.push(socket);
      onHead(socket, (head) => {
        seen.push(`${number} ${head.split(" ", 2).join(" ")}`);
        socket.write(ok);
      });
    });
    const pool = openPool(origin);
    await ask(pool, { path: "/1" });
    await turns(3);
    // In the phase of the loop in which the pool sends: it has had no chance to see the reset.
    setImmediate(() => sockets[0]?.resetAndDestroy());
    expect((await ask(pool, { path: "/2", ...request })).fault).toBeNull();
    expect(seen).toEqual(["1 GET /1", `2 ${request.method ?? "GET"} /2`]);
  });

  test("is not moved while its body is a stream", async () => {
    const sockets: Socket[] = [];
    const origin = await rawBackend((socket) => {
      sockets.push(socket);
      onHead(socket, () => void socket.write(ok));
    });
    const pool = openPool(origin);
    await ask(pool);
    await turns(3);
    setImmediate(() => sockets[0]?.resetAndDestroy());
    const body = Readable.from([Buffer.from("hi")]);
    expect((await ask(pool, { method: "POST", body })).fault).toBe("broken");
  });
});

describe("nothing is sent once more", () => {
  test("when a part of an answer came", async () => {
    const { origin, seen } = await dying("part");
    expect((await second(origin, {})).fault).toBe("broken");
    expect(seen.length).toBe(2);
  });

  test("when it was the connection's first request", async () => {
    const { origin, seen } = await dying("reset", 0);
    expect((await ask(openPool(origin))).fault).toBe("broken");
    expect((await ask(openPool(origin), { fresh: true })).fault).toBe("broken");
    expect(seen.length).toBe(2);
  });

  test("when the backend is only slow", async () => {
    const seen: string[] = [];
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        seen.push(head);
        if (seen.length === 1) socket.write(ok);
      });
    });
    const pool = openPool(origin, { responseTimeoutMs: 50 });
    expect((await ask(pool)).fault).toBeNull();
    await turns(3);
    expect((await ask(pool)).fault).toBe("head-timeout");
    expect(seen.length).toBe(2);
  });

  test("when its handler gave it up", async () => {
    const seen: string[] = [];
    const asked = Promise.withResolvers<void>();
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        seen.push(head);
        if (seen.length === 1) socket.write(ok);
        else asked.resolve();
      });
    });
    const pool = openPool(origin);
    await ask(pool);
    await turns(3);
    const course = ask(pool);
    await asked.promise;
    await pool.destroy();
    expect((await course).fault).toBe("closed");
    expect(seen.length).toBe(2);
  });
});
