/** Requests: methods, bodies, framing, targets, header lines, trailers, versions. */
import { answer, HELLO, noise, OVER_HTTP1, type Case, type RefusedCase } from "../case.ts";
import type { Line } from "../wire.ts";

const BODILESS = ["GET", "HEAD", "DELETE", "OPTIONS"];
const BODIED = ["POST", "PUT", "PATCH", "PROPFIND", "REPORT", "MKCOL"];
const METHODS = [...BODILESS, ...BODIED, "PURGE", "LOCK", "SEARCH"];
const KIB = 1024;
const SIZES: readonly (readonly [string, number])[] = [
  ["0 bytes", 0],
  ["1 byte", 1],
  ["64 KiB", 64 * KIB],
  ["64 KiB and a byte", 64 * KIB + 1],
  ["300 KiB", 300 * KIB],
];

const withoutBody: readonly Case[] = METHODS.map((method) => ({
  name: `${method} without a body`,
  ask: { method },
  answer: HELLO.replace("hello", method === "HEAD" ? "" : "hello"),
}));

const withLength: readonly Case[] = METHODS.flatMap((method) =>
  SIZES.map(([size, length]) => ({
    name: `${method} with a length of ${size}`,
    ask: { method, body: noise(length) },
    answer: HELLO.replace("hello", method === "HEAD" ? "" : "hello"),
  })),
);

const withChunks: readonly Case[] = BODIED.flatMap((method) =>
  SIZES.map(([size, length]) => ({
    name: `${method} in chunks of ${size} in all`,
    ask: { method, body: noise(length), framing: "chunked" as const },
    answer: HELLO,
  })),
);

const expecting: readonly Case[] = (["length", "chunked"] as const).map((framing) => ({
  name: `POST that waits for 100 (Continue), framed by ${framing}`,
  ask: {
    method: "POST",
    body: noise(100 * KIB),
    framing,
    lines: [["Expect", "100-continue"]],
  },
  answer: HELLO,
  only: OVER_HTTP1,
}));

const trailers: readonly Case[] = [
  {
    name: "POST in chunks with trailers",
    ask: {
      method: "POST",
      body: noise(40_000),
      framing: "chunked",
      lines: [["Trailer", "X-Sum, X-Note"]],
      trailers: [
        ["X-Sum", "1234"],
        ["X-Note", "caf\xe9 & more"],
        ["X-Note", "twice"],
      ],
    },
    answer: HELLO,
  },
  {
    name: "POST of no byte in chunks with a trailer",
    ask: {
      method: "POST",
      body: Buffer.alloc(0),
      framing: "chunked",
      trailers: [["X-Sum", "0"]],
    },
    answer: HELLO,
  },
];

const QUERIES = [
  "?",
  "?a",
  "?a=b&a=c",
  "??",
  "?a?b",
  "?/../x",
  "?q=%7B%22a%22%3A%5B1%2C2%5D%7D",
  "?q='x'&&y",
  "?%zz",
  "?a=%00",
  "?+%20+",
  `?long=${"x".repeat(8_000)}`,
];
const targets: readonly Case[] = QUERIES.map((query) => ({
  name: `GET with the query ${query.slice(0, 40)}`,
  ask: { method: "GET", query },
  answer: HELLO,
}));

const LINES: readonly (readonly [string, readonly Line[], boolean?])[] = [
  [
    "every letter case",
    [
      ["aCCept", "*/*"],
      ["ACCEPT-language", "en"],
      ["x-odd-Case", "1"],
    ],
  ],
  [
    "repeated lines in their order",
    [
      ["A", "1"],
      ["B", "2"],
      ["a", "3"],
      ["A", "1"],
    ],
  ],
  [
    "several Cookie lines",
    [
      ["Cookie", "a=1; b=2"],
      ["Cookie", "c=3"],
    ],
    true,
  ],
  [
    "an empty value",
    [
      ["X-Empty", ""],
      ["X-Full", "1"],
    ],
  ],
  ["a value of 16 KiB", [["X-Large", "v".repeat(16 * KIB)]]],
  ["90 lines", Array.from({ length: 90 }, (_, index) => [`X-Line-${index}`, `${index}`] as const)],
  ["a value in Latin-1", [["X-Name", "caf\xe9 \xa7\xff"]]],
  ["a value in UTF-8", [["X-Name", Buffer.from("żółw 🐢").toString("latin1")]]],
  ["tabs and quotes in a value", [["X-Text", 'a\tb "c, d"; e=\\"f\\"']]],
  ["a name of every kind of character that crosses", [["09-azAZ--", "1"]]],
  [
    "obsolete dates",
    [
      ["If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT"],
      ["If-Unmodified-Since", "Sun Nov  6 08:49:37 1994"],
    ],
  ],
  ["credentials", [["Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]]],
  [
    "conditions",
    [
      ["If-None-Match", 'W/"a", "b"'],
      ["If-Match", "*"],
    ],
  ],
  [
    "codings that it takes",
    [
      ["Accept-Encoding", "gzip, br;q=0.9, zstd;q=0"],
      ["Content-Encoding", "gzip"],
    ],
  ],
  [
    "Pragma and Warning",
    [
      ["Pragma", "no-cache"],
      ["Warning", '199 - "stale"'],
    ],
  ],
  [
    "Via and Max-Forwards",
    [
      ["Via", "1.0 fred"],
      ["Max-Forwards", "3"],
    ],
  ],
  [
    "browser lines",
    [
      ["Origin", "https://app.example"],
      ["Sec-Fetch-Mode", "cors"],
      ["Referer", "https://app.example/a?b"],
      ["User-Agent", "x (y; z)"],
    ],
  ],
];
const lines: readonly Case[] = LINES.map(([what, all, isHttp1 = false]) => ({
  name: `GET with ${what}`,
  ask: { method: "GET", lines: all },
  answer: HELLO,
  // HTTP/2 knows small letters only, and Node's client joins cookies itself.
  ...(isHttp1 ? { only: OVER_HTTP1 } : {}),
}));

const stripped: readonly Case[] = [
  {
    name: "GET with what belongs to its connection, or claims what it is not",
    ask: {
      method: "GET",
      lines: [
        ["Keep-Alive", "timeout=5"],
        ["TE", "trailers"],
        ["Proxy-Authorization", "Basic eA=="],
        ["X-Forwarded-For", "192.0.2.1"],
        ["Forwarded", "for=192.0.2.1"],
        ["X-Original-URL", "/admin"],
        ["X_Under_Score", "1"],
        ["!#$%&'*+-.^`|~09azAZ", "1"],
        ["X-402-Payer", "0xdead"],
        ["X-Kept", "1"],
      ],
    },
    answer: HELLO,
    only: OVER_HTTP1,
  },
];

const VERSIONS = [
  ["HTTP/1.1, keep-alive", "1.1", "keep-alive"],
  ["HTTP/1.1, close", "1.1", "close"],
  ["HTTP/1.0", "1.0", undefined],
  ["HTTP/1.0, keep-alive", "1.0", "keep-alive"],
] as const;
const FRAMED: readonly (readonly [string, string, boolean])[] = [
  ["a length", "Content-Length: 5\r\n\r\nhello", false],
  [
    "chunks",
    "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n",
    false,
  ],
  ["the end of the connection", "Connection: close\r\n\r\nhello", true],
];
const versions: readonly Case[] = VERSIONS.flatMap(([version, number, connection]) =>
  FRAMED.flatMap(([framed, rest, ends]) =>
    ["GET", "HEAD", "POST"].map((method) => ({
      name: `${method} by ${version}, answered with ${framed}`,
      ask: {
        method,
        version: number,
        ...(connection === undefined ? {} : { connection }),
        ...(method === "POST" ? { body: noise(KIB) } : {}),
      },
      answer: `HTTP/1.1 200 OK\r\n${method === "HEAD" ? rest.slice(0, rest.indexOf("\r\n\r\n") + 4) : rest}`,
      ends,
      only: OVER_HTTP1,
    })),
  ),
);

export const requestCases: readonly Case[] = [
  ...withoutBody,
  ...withLength,
  ...withChunks,
  ...expecting,
  ...trailers,
  ...targets,
  ...lines,
  ...stripped,
  ...versions,
];

export const refusedRequests: readonly RefusedCase[] = [
  ...BODILESS.filter((method) => method !== "HEAD").map((method) => ({
    name: `${method} in chunks`,
    ask: { method, body: noise(10), framing: "chunked" as const },
    answer: answer("200 OK", [], "hello"),
    only: OVER_HTTP1,
    status: 400,
    why: "backends cut such requests at different places (threat H7)",
  })),
  {
    name: "POST in chunks by HTTP/1.0",
    ask: { method: "POST", body: noise(10), framing: "chunked", version: "1.0" },
    answer: HELLO,
    only: OVER_HTTP1,
    status: 400,
    why: "HTTP/1.0 knows no chunks (RFC 9112 section 6.1)",
  },
];
