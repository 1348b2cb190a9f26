/** Connections to the facilitator's listener: who only holds them keeps nobody out. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { start } from "../../../src/app.ts";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { FIRST } from "../../support/listener-tls.ts";

const CONNECTIONS = 8;

async function open(tls: boolean): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), "facilitator-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "tls.crt"), FIRST.cert);
  await writeFile(join(folder, "tls.key"), FIRST.key);
  const pair = tls ? `, tls: { cert: ${folder}/tls.crt, key: ${folder}/tls.key }` : "";
  const text = `
facilitator:
  listen: { address: "127.0.0.1:0"${pair} }
  auth: { bearer: a-token-of-the-test }
  remote: [http://127.0.0.1:9]
limits: { connections: ${CONNECTIONS} }
store: sqlite:${folder}/ledger.db
logging: { level: silent }
`;
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const parsed = parseConfig(text, { file: "test.yaml", env: {}, readFile });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  const running = await start(parsed.config, "test");
  onTestFinished(() => running.close());
  return running.addresses.facilitator?.port ?? 0;
}

async function dial(port: number, tls: boolean): Promise<Socket> {
  const place = { host: "127.0.0.1", port };
  const socket = tls ? connectTls({ ...place, ca: FIRST.cert }) : connectTcp(place);
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => undefined);
  await once(socket, tls ? "secureConnect" : "connect");
  return socket;
}

/** The first line of what is answered. */
async function visit(socket: Socket): Promise<string> {
  socket.write("GET /supported HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\n\r\n");
  const [answer] = await once(socket, "data");
  return String(answer).split("\r\n")[0] ?? "";
}

test.each([
  ["in the clear", false],
  ["behind TLS", true],
])("%s the longest idle makes room, and what has a call under way stays", async (_, tls) => {
  const port = await open(tls);
  const calling = await dial(port, tls);
  calling.write(
    "POST /settle HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a-token-of-the-test\r\n",
  );
  calling.write("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n");
  const idle: Socket[] = [];
  while (idle.length < CONNECTIONS - 1) {
    const socket = await dial(port, tls);
    // Answered once, so that the order in which they fell idle is certain.
    expect(await visit(socket)).toBe("HTTP/1.1 401 Unauthorized");
    idle.push(socket);
  }
  const ended = Promise.race(idle.map((socket, index) => once(socket, "close").then(() => index)));
  expect(await visit(await dial(port, tls))).toBe("HTTP/1.1 401 Unauthorized");
  expect(await ended).toBe(0);
  calling.write("{}");
  const [answer] = await once(calling, "data");
  expect(String(answer)).toContain("400 Bad Request");
});
