/** Answers: statuses, framing, interim answers, header lines, trailers, codings, ranges. */
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { answer, HELLO, noise, type Case } from "../case.ts";
import { chunked, headText, type Line } from "../wire.ts";

const KIB = 1024;
const SIZES: readonly (readonly [string, number])[] = [
  ["0 bytes", 0],
  ["1 byte", 1],
  ["16 KiB", 16 * KIB],
  ["64 KiB", 64 * KIB],
  ["1 MiB", KIB * KIB],
];

function get(name: string, bytes: string | Buffer, more: Partial<Case> = {}): Case {
  return { name, ask: { method: "GET" }, answer: bytes, ...more };
}

function bytesOf(startLine: string, lines: readonly Line[], body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(headText(startLine, lines), "latin1"), body]);
}

const CHUNKED: Line = ["Transfer-Encoding", "chunked"];

const framed: readonly Case[] = SIZES.flatMap(([size, length]) => {
  const body = noise(length);
  const head = "HTTP/1.1 200 OK";
  return [
    get(`a length of ${size}`, answer("200 OK", [], body)),
    get(`large chunks, ${size} in all`, bytesOf(head, [CHUNKED], chunked(body, 60_000))),
    get(`small chunks, ${size} in all`, bytesOf(head, [CHUNKED], chunked(body, 997))),
    get(`${size} to the end of the connection`, bytesOf(head, [["Connection", "close"]], body), {
      ends: true,
    }),
    get(`${size} by HTTP/1.0`, bytesOf("HTTP/1.0 200 OK", [], body), { ends: true }),
    get(
      `${size} by HTTP/1.0 with a length and keep-alive`,
      bytesOf(
        "HTTP/1.0 200 OK",
        [
          ["Connection", "keep-alive"],
          ["Content-Length", `${length}`],
        ],
        body,
      ),
    ),
  ];
});

const heads: readonly Case[] = [
  ["a length", "Content-Length: 65536\r\n"],
  ["chunks", "Transfer-Encoding: chunked\r\n"],
  ["nothing about its length", 'ETag: "a"\r\n'],
].map(([what, lines]) => ({
  name: `to HEAD with ${what}`,
  ask: { method: "HEAD" },
  answer: `HTTP/1.1 200 OK\r\n${lines}\r\n`,
}));

const STATUSES: readonly string[] = [
  "200 OK",
  "200 ",
  "200 A phrase of its own, (with) signs!",
  "201 Created",
  "202 Accepted",
  "203 Non-Authoritative Information",
  "207 Multi-Status",
  "208 Already Reported",
  "226 IM Used",
  "299 Nobody Knows",
  "300 Multiple Choices",
  "301 Moved Permanently",
  "302 Found",
  "303 See Other",
  "305 Use Proxy",
  "307 Temporary Redirect",
  "308 Permanent Redirect",
  "400 Bad Request",
  "401 Unauthorized",
  "403 Forbidden",
  "404 Not Found",
  "405 Method Not Allowed",
  "406 Not Acceptable",
  "407 Proxy Authentication Required",
  "408 Request Timeout",
  "409 Conflict",
  "410 Gone",
  "411 Length Required",
  "412 Precondition Failed",
  "413 Content Too Large",
  "414 URI Too Long",
  "415 Unsupported Media Type",
  "417 Expectation Failed",
  "418 I'm a Teapot",
  "421 Misdirected Request",
  "422 Unprocessable Content",
  "423 Locked",
  "424 Failed Dependency",
  "425 Too Early",
  "426 Upgrade Required",
  "428 Precondition Required",
  "429 Too Many Requests",
  "431 Request Header Fields Too Large",
  "451 Unavailable For Legal Reasons",
  "499 Client Closed Request",
  "500 Internal Server Error",
  "501 Not Implemented",
  "502 Bad Gateway",
  "503 Service Unavailable",
  "504 Gateway Timeout",
  "505 HTTP Version Not Supported",
  "507 Insufficient Storage",
  "508 Loop Detected",
  "511 Network Authentication Required",
  "599 Nobody Knows",
];
const RELATED: Readonly<Record<string, Line>> = {
  "301": ["Location", "/elsewhere?a=b#c"],
  "302": ["Location", "//other.example/"],
  "401": ["WWW-Authenticate", 'Basic realm="a", Digest qop="auth"'],
  "405": ["Allow", "GET, HEAD"],
  "429": ["Retry-After", "120"],
  "503": ["Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"],
};
const statuses: readonly Case[] = STATUSES.flatMap((status) => {
  const related = RELATED[status.slice(0, 3)];
  const lines: Line[] = related === undefined ? [] : [related];
  return [
    get(`${status} with a body`, answer(status, lines, "a body")),
    get(`${status} with none`, answer(status, lines, "")),
  ];
});

const bodiless: readonly Case[] = [
  get("204", 'HTTP/1.1 204 No Content\r\nETag: "a"\r\n\r\n'),
  get("304", 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nCache-Control: max-age=60\r\n\r\n'),
  get(
    "304 with the length that a 200 would have",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 65536\r\n\r\n",
  ),
  get("205", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"),
  {
    name: "204 to OPTIONS",
    ask: { method: "OPTIONS" },
    answer: "HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n",
  },
];

/** Interim answers: 103 is passed on (`hintsText`), the others are not; the final one has to be unharmed. */
const interim: readonly Case[] = [
  get("100 before it", `HTTP/1.1 100 Continue\r\n\r\n${HELLO}`),
  get("102 before it", `HTTP/1.1 102 Processing\r\n\r\n${HELLO}`),
  get(
    "103 with links before it",
    `HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n${HELLO}`,
  ),
  get(
    "several interim answers before it",
    `HTTP/1.1 100 Continue\r\n\r\n${"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(5)}${HELLO}`,
  ),
  {
    name: "100 before it, to a POST",
    ask: { method: "POST", body: noise(100_000) },
    answer: `HTTP/1.1 100 Continue\r\n\r\n${HELLO}`,
  },
];

const LINES: readonly (readonly [string, readonly Line[], boolean?])[] = [
  [
    "three Set-Cookie lines",
    [
      ["SET-cookie", "a=1; Path=/"],
      ["Set-Cookie", "b=2; Expires=Wed, 21 Oct 2015 07:28:00 GMT"],
      ["set-cookie", "a=1; Path=/"],
    ],
  ],
  [
    "repeated lines in their order",
    [
      ["Link", "</a>"],
      ["X-A", "1"],
      ["link", "</b>"],
      ["X-A", "1"],
    ],
  ],
  ["an empty value", [["X-Empty", ""]]],
  ["a value of 16 KiB", [["X-Large", "v".repeat(16 * KIB)]]],
  [
    "lines of 48 KiB in all",
    Array.from({ length: 24 }, (_, index) => [`X-${index}`, "v".repeat(2 * KIB)] as const),
  ],
  [
    "150 lines",
    Array.from({ length: 150 }, (_, index) => [`X-Line-${index}`, `${index}`] as const),
  ],
  ["a value in Latin-1", [["X-Name", "caf\xe9 \xa7\xff"]]],
  [
    "a file name in UTF-8",
    [
      [
        "Content-Disposition",
        `attachment; filename="${Buffer.from("żółw.txt").toString("latin1")}"`,
      ],
    ],
  ],
  ["a name with an underscore", [["X_Under_Score", "1"]]],
  [
    "its own Date and Server",
    [
      ["Date", "Sun, 06 Nov 1994 08:49:37 GMT"],
      ["Server", "thing/1.0 (x)"],
    ],
  ],
  [
    "obsolete dates",
    [
      ["Last-Modified", "Sunday, 06-Nov-94 08:49:37 GMT"],
      ["Expires", "0"],
    ],
  ],
  [
    "Via, Age and Warning",
    [
      ["Via", "1.1 cache"],
      ["Age", "10"],
      ["Warning", '110 - "stale"'],
    ],
  ],
  [
    "caching lines",
    [
      ["Cache-Control", "public, max-age=60"],
      ["Vary", "Accept-Encoding, Origin"],
      ["ETag", 'W/"x"'],
    ],
  ],
  [
    "CORS lines",
    [
      ["Access-Control-Allow-Origin", "*"],
      ["Access-Control-Expose-Headers", "X-A"],
    ],
  ],
  [
    "security lines",
    [
      ["Strict-Transport-Security", "max-age=1"],
      ["Content-Security-Policy", "default-src 'self'; script-src 'nonce-x'"],
    ],
  ],
  [
    "Alt-Svc and Server-Timing",
    [
      ["Alt-Svc", 'h3=":443"'],
      ["Server-Timing", "db;dur=53"],
    ],
  ],
];
const lines: readonly Case[] = LINES.map(([what, all]) =>
  get(`with ${what}`, answer("200 OK", all, "x")),
);

const odd: readonly Case[] = [
  get(
    "with space around values",
    "HTTP/1.1 200 OK\r\nA:  \t x \t \r\nB:y\r\nContent-Length:0\r\n\r\n",
  ),
  get(
    "with what belongs to its connection",
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n",
  ),
  get(
    "with forged receipts",
    "HTTP/1.1 200 OK\r\nX-PAYMENT-RESPONSE: e30=\r\nPAYMENT-RESPONSE: e30=\r\nPAYMENT-REQUIRED: e30=\r\nEXTENSION-RESPONSES: e30=\r\nX-402-Payer: x\r\nContent-Length: 0\r\n\r\n",
  ),
];

const TEXT = Buffer.from("compressible ".repeat(10_000));
const coded: readonly Case[] = (
  [
    ["gzip", gzipSync(TEXT)],
    ["br", brotliCompressSync(TEXT)],
    ["deflate", deflateSync(TEXT)],
    ["gzip, gzip", gzipSync(gzipSync(TEXT))],
    ["unknown", noise(5_000)],
  ] as const
).flatMap(([coding, body]) => {
  const line: Line = ["Content-Encoding", coding];
  return [
    get(`in ${coding} with a length`, answer("200 OK", [line], body)),
    get(`in ${coding} in chunks`, bytesOf("HTTP/1.1 200 OK", [line, CHUNKED], chunked(body, 300))),
  ];
});

const TRAILERS: readonly Line[] = [
  ["X-Sum", "abc"],
  ["Server-Timing", "a;dur=1"],
  ["X-Sum", "caf\xe9"],
];
const trailed: readonly Case[] = [
  get(
    "with trailers",
    bytesOf(
      "HTTP/1.1 200 OK",
      [["Trailer", "X-Sum"], CHUNKED],
      chunked(noise(40_000), 9_000, TRAILERS),
    ),
  ),
  get(
    "of no byte with trailers",
    bytesOf("HTTP/1.1 200 OK", [CHUNKED], chunked(Buffer.alloc(0), 1, TRAILERS)),
  ),
];

const FILE = noise(10_000);
const RANGE_LINES: readonly Line[] = [
  ["Accept-Ranges", "bytes"],
  ["ETag", '"v1"'],
  ["Content-Type", "application/octet-stream"],
];

function ranged(name: string, lines: readonly Line[], bytes: Buffer): Case {
  return { name, ask: { method: "GET", lines }, answer: bytes };
}

function part(from: number, to: number): Buffer {
  const range: Line = ["Content-Range", `bytes ${from}-${to}/${FILE.length}`];
  return answer("206 Partial Content", [...RANGE_LINES, range], FILE.subarray(from, to + 1));
}

const MULTIPART = Buffer.concat([
  Buffer.from(`--SEP\r\nContent-Range: bytes 0-9/${FILE.length}\r\n\r\n`),
  FILE.subarray(0, 10),
  Buffer.from(`\r\n--SEP\r\nContent-Range: bytes 20-29/${FILE.length}\r\n\r\n`),
  FILE.subarray(20, 30),
  Buffer.from("\r\n--SEP--\r\n"),
]);

const ranges: readonly Case[] = [
  ranged("206 of a first part", [["Range", "bytes=0-99"]], part(0, 99)),
  ranged("206 of one byte", [["Range", "bytes=0-0"]], part(0, 0)),
  ranged("206 of a last part", [["Range", "bytes=-500"]], part(9_500, 9_999)),
  ranged("206 of all", [["Range", "bytes=0-"]], part(0, 9_999)),
  ranged(
    "206 on condition",
    [
      ["Range", "bytes=5-9"],
      ["If-Range", '"v1"'],
    ],
    part(5, 9),
  ),
  ranged(
    "200 as the condition fails",
    [
      ["Range", "bytes=5-9"],
      ["If-Range", '"v0"'],
    ],
    answer("200 OK", RANGE_LINES, FILE),
  ),
  ranged(
    "206 in several parts",
    [["Range", "bytes=0-9, 20-29"]],
    answer(
      "206 Partial Content",
      [["Content-Type", "multipart/byteranges; boundary=SEP"]],
      MULTIPART,
    ),
  ),
  ranged(
    "416 of no part",
    [["Range", "bytes=99999-"]],
    answer("416 Range Not Satisfiable", [["Content-Range", `bytes */${FILE.length}`]], ""),
  ),
];

export const answerCases: readonly Case[] = [
  ...framed,
  ...heads,
  ...statuses,
  ...bodiless,
  ...interim,
  ...lines,
  ...odd,
  ...coded,
  ...trailed,
  ...ranges,
];
