/**
 * A paid request through a remote facilitator, which is a stub that settles at once: what selling costs the
 * process that sells, beside x402-express before http-proxy-middleware with the same facilitator.
 */
import { PRICED_ROUTES } from "../contenders/wares.ts";
import { preciseCpuMicros } from "../process.ts";
import { runLoad, summarize, type Round } from "../rounds.ts";
import { report, type AimRow } from "./aims.ts";
import { paidRequest, newPayments } from "./payments.ts";
import { OURS, X402, type Server, type Stage } from "./stage.ts";
import { sized } from "../size.ts";

const CONNECTIONS = sized(64, 2);
const ROUNDS = sized(5, 1);
const PAYMENTS = sized(500, 4);
/** Rounds that only warm up: so many that everybody's code is compiled, as in a process that has sold for a while. */
const WARM_UPS = sized(20, 0);

export async function comparePaid(stage: Stage): Promise<AimRow[]> {
  const servers = await stage.servers([OURS, X402]);
  const all = new Map(servers.map(({ name }) => [name, [] as Round[]]));
  for (let round = -WARM_UPS; round < ROUNDS; round += 1) {
    const payments = newPayments(PAYMENTS);
    const requests = payments.map((payment, index) =>
      paidRequest(PRICED_ROUTES[index % (PRICED_ROUTES.length - 2)] ?? "/", payment),
    );
    for (const each of round % 2 === 0 ? servers : servers.toReversed()) {
      const done = await sell(stage, each, requests);
      if (round >= 0) all.get(each.name)?.push(done);
    }
  }
  const measured = [...all].map(([name, rounds]) => summarize(name, rounds));
  return report("Paid, 1 KiB, through a remote facilitator", measured, {
    x402: { aim: 0.25, stretch: 0.15 },
  });
}

async function sell(
  { load }: Stage,
  { name, server }: Server,
  requests: readonly Buffer[],
): Promise<Round> {
  const before = preciseCpuMicros(server.pid);
  const { answers, seconds, p50Ms, p99Ms, fault } = await runLoad(load, {
    url: server.url,
    connections: CONNECTIONS,
    durationMs: 0,
    requests,
    // Node and express write the name in letters of their own.
    expect: { status: 200, text: "-PAYMENT-RESPONSE: " },
    once: true,
  });
  const spent = preciseCpuMicros(server.pid) - before;
  if (fault !== null) throw new Error(`${name} gave a wrong answer: ${fault}`);
  return { cpuMicros: spent / answers, perSecond: answers / seconds, p50Ms, p99Ms };
}
