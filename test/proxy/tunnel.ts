/** Switched connections whose both ends are the test's, and the frames that go through them. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { expect } from "vitest";
import type { X402Version } from "../../src/x402/x402.ts";
import type { Turn } from "./backend.ts";
import { AUTHORITY, openSocket, type Place } from "./client.ts";
import type { House } from "./house.ts";
import { ContentMeter, headText, valueOf, type Line } from "./wire.ts";

const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

let opened = 0;

export function handshake(target: string, lines: readonly Line[] = []): string {
  return headText(`GET ${target} HTTP/1.1`, [
    ["Host", AUTHORITY],
    ["Connection", "Upgrade"],
    ["Upgrade", "websocket"],
    ["Sec-WebSocket-Version", "13"],
    ["Sec-WebSocket-Key", KEY],
    ...lines,
  ]);
}

export function switching(key: string, lines: readonly Line[] = []): string {
  const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64");
  return headText("HTTP/1.1 101 Switching Protocols", [
    ["Upgrade", "websocket"],
    ["Connection", "Upgrade"],
    ["Sec-WebSocket-Accept", accept],
    ...lines,
  ]);
}

export interface Tunnel {
  readonly client: Socket;
  readonly backend: Socket;
  readonly head: string;
  close(): void;
}

/** A switched connection whose both ends are the test's. */
export async function openTunnel(
  house: House,
  place: Place,
  {
    version,
    lines = [],
  }: {
    /** That of the payment; default: nothing is paid. */
    readonly version?: X402Version | undefined;
    readonly lines?: readonly Line[];
  } = {},
): Promise<Tunnel> {
  opened += 1;
  const target = `${version === undefined ? "" : "/paid"}/tunnel/${opened}`;
  const arrived = Promise.withResolvers<Turn>();
  house.backend.play(target, (turn) => {
    turn.takeOver();
    turn.write(switching(valueOf(turn.head.lines, "sec-websocket-key") ?? "", lines));
    arrived.resolve(turn);
  });
  const client = openSocket(place);
  const payment = version === undefined ? [] : [await house.payment(target, version)];
  client.write(handshake(target, payment));
  let head = "";
  while (!head.includes("\r\n\r\n")) {
    const [chunk] = await once(client, "data");
    head += chunk.toString("latin1");
  }
  expect(head).toMatch(/^HTTP\/1\.1 101 /);
  const { socket: backend } = await arrived.promise;
  const close = (): void => {
    client.destroy();
    backend.destroy();
  };
  return { client, backend, head, close };
}

/** One frame; a client's are masked with bytes that are all but 0. */
export function frame(
  payload: Buffer,
  options: { opcode: number; fin?: boolean; isMasked?: boolean },
): Buffer {
  const { opcode, fin = true, isMasked = false } = options;
  const head = Buffer.alloc(10);
  head[0] = (fin ? 0x80 : 0) | opcode;
  head[1] = (isMasked ? 0x80 : 0) | 127;
  head.writeBigUInt64BE(BigInt(payload.length), 2);
  if (!isMasked) return Buffer.concat([head, payload]);
  const mask = Buffer.from([0xa5, 0x5a, 0x0f, 0xf1]);
  const masked = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([head, mask, masked]);
}

/** Sends, and resolves when exactly these bytes have come out at the other end. */
export async function carry(bytes: Buffer, from: Socket, to: Socket): Promise<void> {
  const meter = new ContentMeter();
  const done = Promise.withResolvers<void>();
  const take = (chunk: Buffer): void => {
    meter.take(chunk);
    if (meter.length >= bytes.length) done.resolve();
  };
  to.on("data", take);
  const end = (): void => done.reject(new Error("the tunnel has ended"));
  to.once("close", end);
  from.write(bytes);
  await done.promise;
  to.off("data", take).off("close", end);
  expect(meter.length).toBe(bytes.length);
  expect(meter.finish().hash).toBe(createHash("sha256").update(bytes).digest("hex"));
}
