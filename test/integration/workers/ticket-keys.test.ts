/** Keys of TLS session tickets: the same in all workers, and others after a while. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect, onTestFinished, test, vi } from "vitest";
import { start } from "../../../src/app.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { TICKET_KEYS_MS } from "../../../src/gateway/listener/ticket-keys.ts";
import { systemTime } from "../../../src/time/time.ts";
import { freePort } from "../../support/free-port.ts";
import { FIRST } from "../../support/listener-tls.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PATIENT = { timeout: 60_000 };

const yamlOf = (port: number): string => `
listen: { address: "127.0.0.1:${port}", tls: { cert: tls.crt, key: tls.key } }
publicUrl: https://localhost:${port}
upstream: http://127.0.0.1:9
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: http://127.0.0.1:9
unmatched: deny
store: sqlite:./ledger.db
logging: { level: fatal }
workers: 2
routes:
  GET /weather: { price: $0.01, description: Weather }
`;

const PLACE = { host: "127.0.0.1", ca: FIRST.cert, servername: "localhost" };

function newSession(port: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...PLACE, port });
    onTestFinished(() => void socket.destroy());
    socket.once("error", reject).once("session", resolve);
  });
}

function isTakenUp(port: number, session: Buffer): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...PLACE, port, session });
    socket.once("error", reject).once("secureConnect", () => {
      resolve(socket.isSessionReused());
      socket.destroy();
    });
  });
}

/** Of 16 connections, which the system spreads over both workers. */
async function howManyTakeUp(port: number, session: Buffer): Promise<number> {
  const all = await Promise.all(Array.from({ length: 16 }, () => isTakenUp(port, session)));
  return all.filter(Boolean).length;
}

test("are those of all workers, and all of them change them together", PATIENT, async () => {
  const due = Promise.withResolvers<void>();
  const system = { ...systemTime };
  let pauses = 0;
  vi.spyOn(systemTime, "sleep").mockImplementation((ms, signal) => {
    const pause = system.sleep(ms, signal);
    if (ms !== TICKET_KEYS_MS) return pause;
    pauses += 1;
    return pauses === 1 ? Promise.race([due.promise, pause]) : pause;
  });
  onTestFinished(() => void vi.restoreAllMocks());
  const folder = await mkdtemp(join(tmpdir(), "ticket-keys-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const port = await freePort();
  await writeFile(join(folder, "tls.crt"), FIRST.cert);
  await writeFile(join(folder, "tls.key"), FIRST.key);
  await writeFile(join(folder, "gateway.yaml"), yamlOf(port));
  const loaded = await loadConfig(join(folder, "gateway.yaml"));
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const running = await start(loaded.config, "0", { script: join(ROOT, "src/main.ts") });
  onTestFinished(() => running.close({ atOnce: true }));

  const session = await newSession(port);
  expect(await howManyTakeUp(port, session)).toBe(16);
  due.resolve();
  // Both are told at the same time, and hear of it a moment later.
  await vi.waitFor(async () => expect(await howManyTakeUp(port, session)).toBe(0), PATIENT);
  expect(await howManyTakeUp(port, await newSession(port))).toBe(16);
});
