/**
 * How long the thread that serves is held while a file with thousands of routes is reloaded: one price changed, then all
 * of them. Ends with 1 where it is longer than the limit.
 *
 *     npm run bench:reload [-- --routes 10000 --rounds 5 --workers 1]
 *
 * With workers it is the process with the money: each worker is replaced by another one.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parseArgs } from "node:util";
import { start } from "../../src/app.ts";
import { loadInThread } from "../../src/app/read-config.ts";
import { loadConfig } from "../../src/config/config.ts";
import { startIdleFacilitator } from "../support/scripted-facilitator.ts";

const MAIN = join(import.meta.dirname, "../../src/main.ts");
/** Milliseconds. */
const LIMIT_MS = 50;

const { values } = parseArgs({
  options: {
    routes: { type: "string", default: "10000" },
    rounds: { type: "string", default: "5" },
    workers: { type: "string", default: "1" },
  },
});
const count = Number(values.routes);
const folder = await mkdtemp(join(tmpdir(), "coinslot-held-"));
const file = join(folder, "gateway.yaml");
await using facilitator = await startIdleFacilitator();

function text(cents: (index: number) => number): string {
  const routes = Array.from({ length: count }, (_, index) => {
    const price = `$0.${String(cents(index)).padStart(2, "0")}`;
    return `  GET /goods/${index % 100}/item-${index}: { price: ${price}, description: Item ${index} }`;
  });
  return `listen: 127.0.0.1:0
publicUrl: http://localhost:8402
upstream: http://127.0.0.1:9
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: ${facilitator.url}
unmatched: deny
store: sqlite:${folder}/ledger.db
logging: { level: silent }
workers: ${values.workers}
routes:
  GET /free: free
${routes.join("\n")}
`;
}

/** The longest turn of the event loop in time of the processor: what others do on the machine is not in it. */
class Turns {
  #longestMs = 0;
  #isOver = false;

  constructor() {
    this.#turn(this.#ownMs());
  }

  end(): number {
    this.#isOver = true;
    return this.#longestMs;
  }

  #turn(sinceMs: number): void {
    setImmediate(() => {
      const nowMs = this.#ownMs();
      this.#longestMs = Math.max(this.#longestMs, nowMs - sinceMs);
      if (!this.#isOver) this.#turn(nowMs);
    });
  }

  #ownMs(): number {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  }
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
await writeFile(
  file,
  text(() => 1),
);
const loaded = await loadConfig(file);
if (!loaded.ok) throw new Error("the file is refused");
const load = (): ReturnType<typeof loadConfig> => loadInThread(MAIN, file);
const running = await start(loaded.config, "test", { script: MAIN, load, read: loaded });
try {
  for (let round = 1; round <= Number(values.rounds); round += 1) {
    for (const [what, cents] of [
      ["one price", (index: number) => (index === 7 ? 10 + round : round)],
      ["every price", () => round + 1],
    ] as const) {
      await writeFile(file, text(cents));
      collect();
      const delay = monitorEventLoopDelay({ resolution: 1 });
      delay.enable();
      const began = performance.now();
      const turns = new Turns();
      const { reloaded } = await running.reload("POST /-/reload");
      const ownMs = turns.end();
      const tookMs = performance.now() - began;
      delay.disable();
      const heldMs = delay.max / 1e6;
      console.log(
        `${what} of ${count}: reloaded ${reloaded} in ${tookMs.toFixed(0)} ms, held at most ${ownMs.toFixed(1)} ms ` +
          `by its own work, ${heldMs.toFixed(1)} ms with what else this machine does`,
      );
      if (!reloaded || ownMs > LIMIT_MS) process.exitCode = 1;
    }
  }
} finally {
  await running.close();
  await rm(folder, { recursive: true, force: true });
}
