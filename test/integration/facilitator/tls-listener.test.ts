/** The facilitator's listener behind TLS: the process is started as an operator starts it, with nothing to settle. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:https";
import type { IncomingMessage } from "node:http";
import { connect as connectTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFileSync } from "node:fs";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { start, type Running } from "../../../src/app.ts";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import type { KeyPair } from "../../../src/gateway/listener/tls.ts";
import { FIRST, SECOND } from "../../support/listener-tls.ts";

const TOKEN = "a-token-of-the-test";

interface Place {
  readonly folder: string;
  readonly port: number;
  readonly running: Running;
}

async function open(shutdown = "5s"): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), "facilitator-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writePair(folder, FIRST);
  const text = `
facilitator:
  listen: { address: "127.0.0.1:0", tls: { cert: ${folder}/tls.crt, key: ${folder}/tls.key } }
  auth: { bearer: ${TOKEN} }
  remote: [http://127.0.0.1:9]
store: sqlite:${folder}/ledger.db
logging: { level: silent }
shutdown: { within: ${shutdown} }
`;
  const parsed = parseConfig(text, {
    file: "test.yaml",
    env: {},
    readFile: (path) => readFileSync(path, "utf8"),
  });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  const running = await start(parsed.config, "test");
  onTestFinished(() => running.close());
  return { folder, port: running.addresses.facilitator?.port ?? 0, running };
}

async function writePair(folder: string, { cert, key }: KeyPair): Promise<void> {
  await writeFile(join(folder, "tls.crt"), cert);
  await writeFile(join(folder, "tls.key"), key);
}

async function ask(port: number, pair: KeyPair, token = TOKEN): Promise<number> {
  const place = { host: "127.0.0.1", port, ca: pair.cert, agent: false };
  const headers = { authorization: `Bearer ${token}` };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ ...place, path: "/discovery/resources", headers }, resolve)
      .on("error", reject)
      .end();
  });
  answer.resume();
  return answer.statusCode ?? 0;
}

/** What both sides agreed on; rejects where they did not. */
async function agree(port: number, protocols: string[]): Promise<string | false | null> {
  const socket = await new Promise<TLSSocket>((resolve, reject) => {
    const options = { host: "127.0.0.1", port, ca: FIRST.cert, ALPNProtocols: protocols };
    const opened: TLSSocket = connectTls(options, () => resolve(opened));
    opened.on("error", reject);
  });
  socket.destroy();
  return socket.alpnProtocol;
}

test("the endpoints are served over HTTPS, to who has the token, and over nothing else", async () => {
  const { port } = await open();
  expect(await ask(port, FIRST)).toBe(200);
  expect(await ask(port, FIRST, "another-token")).toBe(401);
  expect(await agree(port, ["h2", "http/1.1"])).toBe("http/1.1");
  await expect(agree(port, ["h2"])).rejects.toThrow();
  const plain = connectTcp(port, "127.0.0.1");
  let received = "";
  plain.on("data", (chunk) => (received += chunk.toString())).on("error", () => {});
  plain.write("GET /supported HTTP/1.1\r\nHost: a\r\n\r\n");
  await new Promise((resolve) => plain.once("close", resolve));
  expect(received).not.toContain("HTTP/");
});

test("another certificate in its files is served without a restart", async () => {
  const { folder, port } = await open();
  expect(await ask(port, FIRST)).toBe(200);
  await writePair(folder, SECOND);
  const status = (): Promise<number> => ask(port, SECOND).catch(() => 0);
  await expect.poll(status, { timeout: 10_000 }).toBe(200);
});

test("a handshake that is not finished holds up no shutdown for longer than is allowed", async () => {
  const { port, running } = await open("200ms");
  const silent = connectTcp(port, "127.0.0.1");
  silent.on("error", () => {});
  const closed = new Promise((resolve) => silent.once("close", resolve));
  await new Promise((resolve) => silent.once("connect", resolve));
  expect(await ask(port, FIRST)).toBe(200);
  await running.close();
  await closed;
});
