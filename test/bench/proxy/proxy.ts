/**
 * The gateway as a proxy beside nginx, HAProxy and what else runs on Node: CPU for one request, throughput,
 * latency, memory, and each aim with what was reached. `node test/bench/proxy/proxy.ts` runs all parts, with
 * names only those: free-route, payment-required, paid, latency, events, slow-readers. With `--before FOLDER`, a
 * checkout with its packages, the first two compare ours with that version alone.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { HAPROXY_MISSING, haproxyVersion } from "../contenders/haproxy.ts";
import { NGINX_MISSING, nginxVersion } from "../contenders/nginx.ts";
import { coinslotVersion, say, sayHead } from "../report.ts";
import { sayAims, type AimRow } from "./aims.ts";
import { Disturbance } from "./disturbance.ts";
import { compareEvents } from "./events.ts";
import { compareFreeRoute } from "./free-route.ts";
import { compareLatency } from "./latency.ts";
import { comparePaid } from "./paid.ts";
import { comparePaymentRequired } from "./payment-required.ts";
import { compareSlowReaders } from "./slow-readers.ts";
import { Stage, versions } from "./stage.ts";

const PARTS: Readonly<Record<string, (stage: Stage) => Promise<AimRow[] | void>>> = {
  "free-route": compareFreeRoute,
  "payment-required": comparePaymentRequired,
  paid: comparePaid,
  latency: compareLatency,
  events: compareEvents,
  "slow-readers": compareSlowReaders,
};

const options = { before: { type: "string" } } as const;
const { positionals: named } = parseArgs({ options, allowPositionals: true });
const unknown = named.filter((name) => PARTS[name] === undefined);
if (unknown.length > 0) {
  throw new Error(
    `no such part: ${unknown.join(", ")}; there are ${Object.keys(PARTS).join(", ")}`,
  );
}

const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
try {
  await using stage = await Stage.open(folder);
  sayHead("The gateway as a proxy", [coinslotVersion(), ...versions()]);
  if (nginxVersion() === null) say(`  ${NGINX_MISSING}`);
  if (haproxyVersion() === null) say(`  ${HAPROXY_MISSING}`);
  say(
    "  setting   100 routes, 98 of them priced; metrics and default log; one worker or thread each;",
  );
  say(
    "            rounds in alternating order, medians and the least disturbed round; CPU is that",
  );
  say("            of the server's process tree");
  const started = performance.now();
  const whole = new Disturbance();
  const aims: AimRow[] = [];
  for (const name of named.length > 0 ? named : Object.keys(PARTS)) {
    const part = new Disturbance();
    aims.push(...((await PARTS[name]?.(stage)) ?? []));
    say(`  (others kept ${percent(part.read())} of the machine busy meanwhile)`);
  }
  if (aims.length > 0) sayAims(aims);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  say(`\n${seconds} s; others kept ${percent(whole.read())} of the machine busy`);
} finally {
  await rm(folder, { recursive: true, force: true });
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}
