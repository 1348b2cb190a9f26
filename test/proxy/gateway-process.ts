/**
 * The gateway as a process of its own that tells about its own memory: forked with `--expose-gc`, it starts
 * with the configuration that it is sent and answers each {@link Order}.
 */
import { readFileSync } from "node:fs";
import { start, type Running } from "../../src/app.ts";
import { formatProblems, parseConfig } from "../../src/config/config.ts";

export type Order =
  | { readonly kind: "start"; readonly yaml: string }
  /** Collects garbage first, and forgets the peaks. */
  | { readonly kind: "settle" }
  /** Peaks since the last `settle`. */
  | { readonly kind: "peaks" };

export interface Look {
  /** Bytes, as of `process.memoryUsage()`. */
  readonly rss: number;
  readonly heapUsed: number;
  readonly external: number;
  /** Open TCP connections. */
  readonly sockets: number;
  /** Port of the gateway. */
  readonly port: number;
}

/** How often peaks are looked for, milliseconds. */
const LOOK_MS = 20;
/** Garbage that only becomes such as its finalizers run takes several collections. */
const COLLECTIONS = 4;

let running: Running | undefined;
let peak: Look = look();

function look(): Look {
  const { rss, heapUsed, external } = process.memoryUsage();
  const sockets = process
    .getActiveResourcesInfo()
    .filter((name) => name === "TCPSocketWrap").length;
  const port = running?.addresses.gateway[0]?.port ?? 0;
  return { rss, heapUsed, external, sockets, port };
}

async function startWith(yaml: string): Promise<void> {
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const parsed = parseConfig(yaml, { file: "memory.yaml", env: {}, readFile });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  running = await start(parsed.config, "test");
  setInterval(() => {
    const now = look();
    peak = {
      ...now,
      rss: Math.max(now.rss, peak.rss),
      heapUsed: Math.max(now.heapUsed, peak.heapUsed),
      external: Math.max(now.external, peak.external),
    };
  }, LOOK_MS);
}

async function obey(order: Order): Promise<Look> {
  if (order.kind === "start") await startWith(order.yaml);
  if (order.kind === "peaks") return peak;
  for (let round = 0; round < COLLECTIONS; round += 1) {
    globalThis.gc?.();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  peak = look();
  return peak;
}

process.on("message", (order: Order) => {
  void obey(order).then(
    (told) => process.send?.(told),
    (error: unknown) => {
      process.send?.({ error: String(error) });
    },
  );
});
process.on("disconnect", () => process.exit());
