/**
 * How an answer to HTTP/1.0 ends over TLS: its only mark of completeness is `close_notify`, which Node's own
 * client does not miss. So the records are looked at as they pass, and the connection beneath them.
 */
import { connect as connectTcp } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { certificate } from "../unit/http1/tls-identity.ts";
import { AUTHORITY } from "./client.ts";
import { House } from "./house.ts";

/** RFC 5246 section 6.2.1: of a record that is encrypted, the type is still to be seen. */
const ALERT = 21;
const RECORD_HEAD_BYTES = 5;

let house: House;
beforeAll(async () => {
  house = await House.open({ isTls: true });
});
afterAll(() => house[Symbol.asyncDispose]());

interface Ending {
  readonly text: string;
  readonly wasReset: boolean;
  readonly hasNotice: boolean;
}

/** One request by HTTP/1.0 over TLS 1.2, to the end of its connection. */
async function ask(target: string): Promise<Ending> {
  const tcp = connectTcp({ port: house.front.port, host: "127.0.0.1" });
  let records = Buffer.alloc(0);
  const tap = new Duplex({
    read: () => void tcp.resume(),
    write: (chunk, _encoding, done) => void tcp.write(chunk, done),
    final: (done) => void tcp.end(done),
  });
  tcp.on("data", (chunk) => {
    records = Buffer.concat([records, chunk]);
    tap.push(chunk);
  });
  tcp.on("end", () => tap.push(null));
  let wasReset = false;
  tcp.on("error", () => {
    wasReset = true;
    tap.push(null);
  });
  const socket = connectTls({
    socket: tap,
    ca: certificate,
    servername: AUTHORITY,
    maxVersion: "TLSv1.2",
    // What curl offers for --http1.0.
    ALPNProtocols: ["http/1.0"],
  });
  let text = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => (text += chunk));
  socket.on("error", () => undefined);
  socket.write(`GET ${target} HTTP/1.0\r\nHost: ${AUTHORITY}\r\n\r\n`);
  await new Promise((resolve) => tcp.once("close", resolve));
  socket.destroy();
  return { text, wasReset, hasNotice: typesOf(records).at(-1) === ALERT };
}

function typesOf(records: Buffer): number[] {
  const types: number[] = [];
  for (let from = 0; from + RECORD_HEAD_BYTES <= records.length;) {
    types.push(records[from] ?? 0);
    from += RECORD_HEAD_BYTES + records.readUInt16BE(from + RECORD_HEAD_BYTES - 2);
  }
  return types;
}

test("a whole answer ends with close_notify, one that is cut off without and with a reset", async () => {
  const chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\n";
  house.backend.play("/whole", ({ write }) => void write(`${chunk}0\r\n\r\n`));
  house.backend.play("/cut", ({ write, socket }) => {
    write(chunk);
    setTimeout(() => socket.destroy(), 20);
  });
  const whole = await ask("/whole");
  expect(whole.text).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\na part$/);
  expect(whole).toMatchObject({ hasNotice: true, wasReset: false });
  const cut = await ask("/cut");
  expect(cut.text).toMatch(/a part$/);
  expect(cut).toMatchObject({ hasNotice: false, wasReset: true });
});
