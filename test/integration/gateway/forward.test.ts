import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { backend, onHead, rawBackend, send, stage } from "./stage.ts";
import type { Sent } from "./stage.ts";

async function bytesOf(message: IncomingMessage, done: (bytes: Buffer) => void): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  done(Buffer.concat(chunks));
}

const sha = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

interface Echo {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly length: number;
  readonly sha: string;
}

/** A backend that answers with what it saw, in a header too for HEAD. */
const echo = () =>
  backend((request, response) => {
    void bytesOf(request, (bytes) => {
      const { method, url, rawHeaders } = request;
      const seen = JSON.stringify({
        method,
        url,
        rawHeaders,
        length: bytes.length,
        sha: sha(bytes),
      });
      response.setHeader("X-Seen", Buffer.from(seen).toString("base64"));
      response.end(seen);
    });
  });

function seen(headers: Readonly<Record<string, unknown>>): Echo {
  return JSON.parse(Buffer.from(String(headers["x-seen"]), "base64").toString()) as Echo;
}

const small = Buffer.from('{"a":1}');
const large = Buffer.alloc(300_000, "abcdefghij");

function withLength(body: Buffer): Sent {
  const headers = ["Content-Length", String(body.length), "Content-Type", "text/plain"];
  return { headers, body: [body] };
}

describe("a request", () => {
  const bodied = ["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "PROPFIND"];
  const cases: (readonly [string, string, Sent, Buffer])[] = [
    ...["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PURGE"].map(
      (method) => [method, "no body", {}, Buffer.alloc(0)] as const,
    ),
    ...bodied.map((method) => [method, "a small body", withLength(small), small] as const),
    ...bodied.map((method) => [method, "a large body", withLength(large), large] as const),
    ...["POST", "PUT", "PATCH"].flatMap((method) => [
      [method, "one chunk", { body: [small] }, small] as const,
      [
        method,
        "many chunks",
        { body: [small, large, small] },
        Buffer.concat([small, large, small]),
      ] as const,
    ]),
    ["POST", "an explicit empty body", { headers: ["Content-Length", "0"] }, Buffer.alloc(0)],
  ];

  test.each(cases)("%s with %s arrives as it was sent", async (method, _, sent, body) => {
    const { port, delivery } = await stage(await echo());
    for (let round = 0; round < 2; round += 1) {
      const answer = await send(port, { ...sent, method, path: "/a/%C3%A9?q='x'&&y" });
      expect(answer.status).toBe(200);
      expect(seen(answer.headers)).toMatchObject({
        method,
        url: "/a/%C3%A9?q='x'&&y",
        length: body.length,
        sha: sha(body),
      });
      expect(await delivery()).toMatchObject({ kind: "delivered", status: 200 });
    }
  });

  test("reaches the backend with one Host, its own, and without what is not the client's to say", async () => {
    const origin = await echo();
    const { port } = await stage(origin, {}, { requestHeaders: ["X-402-Payer", "0xbeef"] });
    const { headers } = await send(port, {
      path: "/a",
      headers: [
        "Host",
        "api.example.com",
        "X-PAYMENT",
        "secret",
        "X-402-Payer",
        "0xdead",
        "X_402_Payer",
        "0xdead",
        "X-Forwarded-For",
        "1.2.3.4",
        "Forwarded",
        "for=1.2.3.4",
        "X-Original-URL",
        "/admin",
        "Connection",
        "keep-alive, X-Hop",
        "X-Hop",
        "1",
        "aCCept",
        "*/*",
        "A",
        "1",
        "a",
        "2",
      ],
    });
    const raw = seen(headers).rawHeaders.map((text, index) =>
      index % 2 === 0 && text === "connection" ? "Connection" : text,
    );
    const pairs = raw.flatMap((name, index) =>
      index % 2 === 0 ? [`${name}: ${raw[index + 1]}`] : [],
    );
    expect(pairs.sort()).toEqual(
      [
        `host: ${new URL(origin).host}`,
        "Connection: keep-alive",
        "aCCept: */*",
        "A: 1",
        "a: 2",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Host: api.example.com",
        "X-Forwarded-Proto: http",
        "X-402-Payer: 0xbeef",
      ].sort(),
    );
  });

  test("of 10 MiB is streamed, both ways, unchanged", async () => {
    const origin = await backend((request, response) => {
      response.writeHead(
        200,
        request.headers["content-length"] === undefined
          ? {}
          : {
              "content-length": request.headers["content-length"],
            },
      );
      request.pipe(response);
    });
    const { port } = await stage(origin);
    const body = Buffer.alloc(10 * 1024 * 1024, "0123456789abcdef!");
    const length = ["Content-Length", String(body.length)];
    for (const headers of [length, []]) {
      const answer = await send(port, { method: "POST", headers, body: [body] });
      expect(answer.body.length).toBe(body.length);
      expect(sha(answer.body)).toBe(sha(body));
    }
  });

  test("without a body costs the backend no byte of one", async () => {
    const heads: string[] = [];
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        heads.push(head);
        socket.write("HTTP/1.1 204 No Content\r\n\r\n");
      });
    });
    const { port } = await stage(origin);
    for (const method of ["GET", "HEAD", "DELETE", "OPTIONS"]) await send(port, { method });
    await send(port, { headers: ["Content-Length", "0"] });
    expect(heads.length).toBe(5);
    for (const head of heads) expect(head).not.toMatch(/content-length|transfer-encoding/i);
  });

  test("with a body where none is expected does not leave its connection to the next request", async () => {
    const connections: string[][] = [];
    const origin = await rawBackend((socket, number) => {
      onHead(socket, (head) => {
        (connections[number] ??= []).push(head.split(" ")[0] ?? "");
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      });
    });
    const { port } = await stage(origin);
    const smuggled = "GET /admin HTTP/1.1\r\nHost: x";
    const headers = ["Content-Length", String(smuggled.length)];
    expect((await send(port, { headers, body: [smuggled] })).status).toBe(200);
    expect((await send(port, {})).status).toBe(200);
    expect(connections.slice(1)).toEqual([["GET"], ["GET"]]);
  });

  test("that finds every connection busy is not queued", async () => {
    const { promise, resolve } = Promise.withResolvers<() => void>();
    const origin = await backend((request, response) => {
      if (request.url === "/slow") resolve(() => response.end());
      else response.end();
    });
    const { port, delivery } = await stage(origin, { connections: 1 });
    const slow = send(port, { path: "/slow" });
    const finish = await promise;
    const first = delivery();
    expect((await send(port)).status).toBe(503);
    expect(await delivery()).toMatchObject({ reason: "saturated", sent: false });
    finish();
    expect((await slow).status).toBe(200);
    await first;
    expect((await send(port)).status).toBe(200);
  });
});
