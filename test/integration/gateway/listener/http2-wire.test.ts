/** What comes in HTTP/2 frames and is no request: refused, and never half a request for a backend. */
import { constants } from "node:http2";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { backend, onHead, rawBackend } from "../stage.ts";
import { HEADER_BYTES, openSecureShop, PATIENT } from "./secure-stage.ts";
import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  FRAME,
  requestLines,
  WireClient,
  type Lines,
} from "./http2-wire.ts";

const {
  NGHTTP2_CANCEL,
  NGHTTP2_ENHANCE_YOUR_CALM,
  NGHTTP2_FLOW_CONTROL_ERROR,
  NGHTTP2_NO_ERROR,
  NGHTTP2_PROTOCOL_ERROR,
} = constants;

interface Stage {
  readonly client: WireClient;
  readonly port: number;
  /** `complete` or `torn`, for each request of which the backend heard. */
  readonly seen: string[];
}

async function stage(): Promise<Stage> {
  const seen: string[] = [];
  const origin = await backend((request: IncomingMessage, response) => {
    const parts: Buffer[] = [];
    request.on("data", (chunk: Buffer) => parts.push(chunk));
    request.on("error", () => {});
    request.once("close", () => {
      const body = Buffer.concat(parts).toString();
      seen.push(`${request.complete ? "complete" : "torn"} ${request.url} ${body}`.trim());
    });
    request.once("end", () => response.end("hello"));
  });
  const { port } = await openSecureShop(origin);
  return { client: await WireClient.open(port), port, seen };
}

const HEAD = requestLines();
const POST = requestLines("/free", { method: "POST" });

function numbered(count: number): Lines {
  return Array.from({ length: count }, (_, at) => [`x-${at}`, "1"]);
}

/** With a line of its own behind the four. */
function withLine(name: string, value: string, lines: Lines = HEAD): Lines {
  return [...lines, [name, value]];
}

describe("a head", () => {
  const PROTOCOL = `reset ${NGHTTP2_PROTOCOL_ERROR}`;

  test.each<[string, Lines, string]>([
    ["that is in order", HEAD, "200"],
    ["with a Host that says the same", withLine("host", "shop.example"), "200"],
    ["with a Host that says the same in capitals", withLine("host", "SHOP.example"), "200"],
    ["with a Host that says something else", withLine("host", "other.example"), "400"],
    ["with two Hosts", withLine("host", "a", withLine("host", "a", HEAD.slice(0, 3))), PROTOCOL],
    ["with a Host alone", withLine("host", "a", HEAD.slice(0, 3)), "200"],
    ["without any host", HEAD.slice(0, 3), PROTOCOL],
    ["with user information", requestLines("/free", { authority: "me@shop.example" }), PROTOCOL],
    ["without a path", [...HEAD.slice(0, 2), ...HEAD.slice(3)], PROTOCOL],
    ["with an empty path", requestLines(""), PROTOCOL],
    ["with a whole URL for a path", requestLines("http://shop.example/free"), PROTOCOL],
    ["with a path that is none", requestLines("free"), PROTOCOL],
    ["with a blank in its path", requestLines("/free /x"), PROTOCOL],
    ["with a path that climbs", requestLines("/free/../priced"), "400"],
    ["with a path in percent code", requestLines("/%66ree"), "400"],
    ["with a path in bytes", requestLines("/caf\u00e9"), "400"],
    ["with two paths", [...HEAD, [":path", "/x"]], PROTOCOL],
    ["with a field of its own before the path", [["x-a", "1"], ...HEAD], PROTOCOL],
    ["with an unknown field in the place of a path", [...HEAD, [":x", "1"]], PROTOCOL],
    ["without a method", HEAD.slice(1), PROTOCOL],
    [
      "with an unknown scheme",
      [...HEAD.filter(([name]) => name !== ":scheme"), [":scheme", "ftp"]],
      "400",
    ],
    ["with a name in capitals", withLine("X-Payment", "a"), PROTOCOL],
    ["with Connection", withLine("connection", "x-a"), PROTOCOL],
    ["with Keep-Alive", withLine("keep-alive", "1"), PROTOCOL],
    ["with Proxy-Connection", withLine("proxy-connection", "x-a"), PROTOCOL],
    ["with Transfer-Encoding", withLine("transfer-encoding", "chunked"), PROTOCOL],
    ["with Upgrade", withLine("upgrade", "websocket"), PROTOCOL],
    ["with TE for more than trailers", withLine("te", "gzip"), PROTOCOL],
    ["with TE for trailers", withLine("te", "trailers"), "200"],
    [
      "with two lengths",
      withLine("content-length", "0", withLine("content-length", "0")),
      PROTOCOL,
    ],
    ["with a length in words", withLine("content-length", "none"), PROTOCOL],
    ["with a length and no body", withLine("content-length", "5"), PROTOCOL],
    ["with a list of lengths", withLine("content-length", "0, 0"), PROTOCOL],
    [
      "of CONNECT",
      [
        [":method", "CONNECT"],
        [":authority", "shop.example:443"],
      ],
      "400",
    ],
    [
      "of an extended CONNECT",
      [...requestLines("/free", { method: "CONNECT" }), [":protocol", "websocket"]],
      PROTOCOL,
    ],
    [
      "with a second payment",
      withLine("x-payment", "a", withLine("x-payment", "b", requestLines("/x"))),
      "400",
    ],
  ])("%s is answered so", async (_name, lines, outcome) => {
    const { client, seen } = await stage();
    client.request(1, lines);
    expect(await client.outcome(1)).toBe(outcome);
    expect(seen).toEqual(outcome === "200" ? ["complete /free"] : []);
    client.request(3, HEAD);
    expect(await client.outcome(3)).toBe("200");
  });

  /** Node's parser drops such a line by itself; what matters is that nobody behind it reads one. */
  test.each([
    ["a name with a blank", "x a", "a"],
    ["an empty name", "", "a"],
    ["a value with CR and LF", "x-a", "a\r\nx-payment: b"],
    ["a value with NUL", "x-a", "a\0b"],
  ])("that has a line with %s loses it", async (_name, name, value) => {
    const heads: string[] = [];
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        heads.push(head);
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      });
    });
    const { port } = await openSecureShop(origin);
    const client = await WireClient.open(port);
    client.request(1, withLine(name, value));
    client.request(3, HEAD);
    expect(await Promise.all([client.outcome(1), client.outcome(3)])).toEqual(["200", "200"]);
    expect(heads).toHaveLength(2);
    expect(heads[0]).toBe(heads[1]);
  });

  test("over the limit is refused, and the connection lives", async () => {
    const { client, seen } = await stage();
    client.request(1, withLine("x-a", "a".repeat(16_000), withLine("x-b", "b".repeat(200))));
    expect(await client.outcome(1)).toBe("200");
    const half = "a".repeat(8_000);
    const lines: Lines = [
      ...HEAD,
      ...Array.from({ length: 5 }, (_, at) => [`x-${at}`, half] as const),
    ];
    const whole = block(lines);
    expect(whole.length).toBeGreaterThan(HEADER_BYTES);
    const parts = [0, 1, 2].map((at) => whole.subarray(at * 16_000, (at + 1) * 16_000));
    client.send(
      frame(FRAME.headers, END_STREAM, 3, parts[0]),
      frame(FRAME.continuation, 0, 3, parts[1]),
      frame(FRAME.continuation, END_HEADERS, 3, parts[2]),
    );
    expect(await client.outcome(3)).toBe(`reset ${NGHTTP2_ENHANCE_YOUR_CALM}`);
    client.request(5, HEAD);
    expect(await client.outcome(5)).toBe("200");
    expect(seen).toHaveLength(2);
  });

  test("of a hundred lines is taken, and of more not; cookies count as one", async () => {
    const { client } = await stage();
    client.request(1, [...HEAD, ...numbered(99)]);
    expect(await client.outcome(1)).toBe("200");
    client.request(3, [...HEAD, ...numbered(100)]);
    expect(await client.outcome(3)).toBe("431");
    const crumbs: Lines = Array.from({ length: 150 }, (_, at) => ["cookie", `c${at}=1`]);
    client.request(5, [...HEAD, ...crumbs]);
    expect(await client.outcome(5)).toBe("200");
  });
});

describe("a body", () => {
  test("that is shorter than its length is no request", async () => {
    const { client, seen } = await stage();
    client.request(1, withLine("content-length", "70000", POST), false);
    client.send(frame(FRAME.data, END_STREAM, 1, Buffer.from("short")));
    expect(await client.outcome(1)).toBe(`reset ${NGHTTP2_PROTOCOL_ERROR}`);
    await expect
      .poll(() => seen.filter((each) => each.startsWith("complete")), PATIENT)
      .toEqual([]);
  });

  test("that is longer than its length is no request", async () => {
    const { client, seen } = await stage();
    client.request(1, withLine("content-length", "2", POST), false);
    client.send(frame(FRAME.data, 0, 1, Buffer.from("hello")));
    expect(await client.goaway()).not.toBe(NGHTTP2_NO_ERROR);
    expect(seen).toEqual([]);
  });

  test.each([NGHTTP2_NO_ERROR, NGHTTP2_CANCEL])(
    "of unknown length that is broken off with code %s never ends for the backend",
    async (code) => {
      const { client, seen } = await stage();
      client.request(1, POST, false);
      client.send(frame(FRAME.data, 0, 1, Buffer.from("half")));
      client.request(3, requestLines("/free/other"));
      expect(await client.outcome(3)).toBe("200");
      const reason = Buffer.alloc(4);
      reason.writeUInt32BE(code);
      client.send(frame(FRAME.reset, 0, 1, reason));
      await expect.poll(() => seen, PATIENT).toEqual(["complete /free/other", "torn /free half"]);
    },
  );

  test("that is cut by the end of the connection never ends for the backend", async () => {
    const { client, seen } = await stage();
    client.request(1, POST, false);
    client.send(frame(FRAME.data, 0, 1, Buffer.from("half")));
    client.request(3, requestLines("/free/other"));
    expect(await client.outcome(3)).toBe("200");
    client.socket.end();
    await expect.poll(() => seen, PATIENT).toEqual(["complete /free/other", "torn /free half"]);
  });

  test("that is sent without regard for what is read ends the connection", async () => {
    const origin = await rawBackend((socket) => void socket.pause());
    const { port } = await openSecureShop(origin, { upstream: { bodyLimitBytes: 2 ** 40 } });
    const client = await WireClient.open(port);
    client.request(1, POST, false);
    const part = frame(FRAME.data, 0, 1, Buffer.alloc(16_384));
    const many = Buffer.concat(Array.from({ length: 64 }, () => part));
    while (!client.socket.destroyed) {
      await new Promise<void>((resolve) => void client.socket.write(many, () => resolve()));
    }
    expect(await client.goaway()).toBe(NGHTTP2_FLOW_CONTROL_ERROR);
  });

  test("with trailers that would be a head is no request", async () => {
    const { client, seen } = await stage();
    client.request(1, POST, false);
    client.send(frame(FRAME.data, 0, 1, Buffer.from("body")));
    const trailers = block([[":path", "/priced"]]);
    client.send(frame(FRAME.headers, END_HEADERS + END_STREAM, 1, trailers));
    expect(await client.outcome(1)).toBe(`reset ${NGHTTP2_PROTOCOL_ERROR}`);
    await expect
      .poll(() => seen.filter((each) => each.startsWith("complete")), PATIENT)
      .toEqual([]);
  });
});

describe("a flood", () => {
  test("of requests that are taken back ends its connection", async () => {
    const { client, port } = await stage();
    const cancel = Buffer.from([0, 0, 0, NGHTTP2_CANCEL]);
    const head = block(requestLines("/priced"));
    for (let round = 0; round < 20; round += 1) {
      const frames: Buffer[] = [];
      for (let each = 0; each < 50; each += 1) {
        const stream = 2 * (round * 50 + each) + 1;
        frames.push(frame(FRAME.headers, END_HEADERS, stream, head));
        frames.push(frame(FRAME.reset, 0, stream, cancel));
      }
      client.send(...frames);
    }
    expect(await client.goaway()).not.toBe(NGHTTP2_NO_ERROR);
    const other = await WireClient.open(port);
    other.request(1, HEAD);
    expect(await other.outcome(1)).toBe("200");
  });

  test("of heads that are malformed ends its connection", async () => {
    const { client, seen } = await stage();
    for (let stream = 1; !client.socket.destroyed; stream += 2) {
      expect(stream).toBeLessThan(500);
      client.request(stream, withLine("connection", "x-a"));
      await client.outcome(stream);
    }
    expect(await client.goaway()).not.toBe(NGHTTP2_NO_ERROR);
    expect(seen).toEqual([]);
  });

  test("of requests at once, more than are allowed, ends its connection", async () => {
    const { client, seen } = await stage();
    const head = block(POST);
    const frames = Array.from({ length: 101 }, (_, at) =>
      frame(FRAME.headers, END_HEADERS, 2 * at + 1, head),
    );
    client.send(...frames);
    expect(await client.goaway()).toBe(NGHTTP2_PROTOCOL_ERROR);
    await expect.poll(() => seen.every((each) => each.startsWith("torn")), PATIENT).toBe(true);
  });

  test.each([
    ["PING", frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
    ["SETTINGS", frame(FRAME.settings, 0, 0)],
  ])("of %s frames whose answers nobody reads ends its connection", async (_name, part) => {
    const { client } = await stage();
    client.request(1, HEAD);
    expect(await client.outcome(1)).toBe("200");
    client.socket.pause();
    const many = Buffer.concat(Array.from({ length: 10_000 }, () => part));
    for (let round = 0; round < 200 && !client.socket.destroyed; round += 1) {
      await new Promise<void>((resolve) => {
        client.socket.write(many, () => resolve());
      });
    }
    client.socket.resume();
    await client.closed;
  });

  test("of CONTINUATION frames ends its connection", async () => {
    const { client, seen } = await stage();
    client.send(frame(FRAME.headers, 0, 1, block(HEAD)));
    const part = frame(FRAME.continuation, 0, 1, block([["x-a", "1"]]));
    client.send(...Array.from({ length: 1_000 }, () => part));
    expect(await client.goaway()).not.toBe(NGHTTP2_NO_ERROR);
    expect(seen).toEqual([]);
  });

  test("of bytes that are no frames ends its connection", async () => {
    const { port } = await stage();
    const client = await WireClient.open(port, true);
    client.socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.closed;
  });
});
