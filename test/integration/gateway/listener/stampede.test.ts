/** More new connections at once than begin in one turn, or than node would let the system hold. */
import { existsSync, readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { openShop } from "../shop.ts";
import { backend } from "../stage.ts";
import { openSecureShop, PATIENT } from "./secure-stage.ts";

/** Node's own is 511. */
const STAMPEDE = 1_000;
const SOMAXCONN = "/proc/sys/net/core/somaxconn";
const LEAVING = 5;
/** Longest that the gateway stands still, milliseconds. */
const STILL_MS = 15_000;

/** Connects while this thread stands still, asks at once, and breaks every fifth connection off. */
const STRANGERS = `
  const { connect } = require("node:net");
  const { connect: connectTls } = require("node:tls");
  const { workerData: { port, count, leaving, counts, isSecure }, parentPort } = require("node:worker_threads");
  const shared = new Int32Array(counts);
  let answered = 0;
  for (let index = 0; index < count; index += 1) {
    const raw = connect({ port, host: "127.0.0.1" });
    raw.on("error", () => {}).once("connect", () => {
      if (index % leaving === 0) raw.write("GET /free HTTP/1.1\\r\\n", () => raw.resetAndDestroy());
      Atomics.add(shared, 0, 1);
      Atomics.notify(shared, 0);
    });
    const socket = isSecure ? connectTls({ socket: raw, rejectUnauthorized: false }) : raw;
    socket.on("error", () => {}).once("data", () => {
      answered += 1;
      parentPort.postMessage(answered);
    });
    if (index % leaving !== 0) socket.write("GET /free HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");
  }
`;

/** What the system itself holds. */
const most = existsSync(SOMAXCONN) ? Number(readFileSync(SOMAXCONN, "utf8")) : 128;

test.each(["HTTP/1.1", "TLS"])(
  "over %s all are held and served, and those that leave meanwhile do no harm",
  async (protocol) => {
    const isSecure = protocol === "TLS";
    const count = Math.min(STAMPEDE, most - 1);
    const url = await backend((_request, response) => void response.end("hello"));
    const { port } = isSecure ? await openSecureShop(url) : await openShop(url);
    const counts = new SharedArrayBuffer(4);
    const shared = new Int32Array(counts);
    const workerData = { port, count, leaving: LEAVING, counts, isSecure };
    const strangers = new Worker(STRANGERS, { eval: true, workerData });
    onTestFinished(async () => void (await strangers.terminate()));
    let answered = 0;
    strangers.on("message", (told: number) => (answered = told));
    await new Promise((resolve) => strangers.once("online", resolve));
    const until = performance.now() + STILL_MS;
    for (let come = 0; come < count && performance.now() < until;) {
      Atomics.wait(shared, 0, come, until - performance.now());
      come = Atomics.load(shared, 0);
    }
    expect(Atomics.load(shared, 0)).toBe(count);
    const served = count - Math.ceil(count / LEAVING);
    await expect.poll(() => answered, PATIENT).toBe(served);
  },
);
