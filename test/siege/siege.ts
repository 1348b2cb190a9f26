/**
 * Strangers who take up what they can, while twenty buyers and twenty visitors from other addresses come: who of these
 * is refused, how long do they wait, what does the gateway hold? It runs as in the container that we ship, with its
 * memory and its network's settings, as far as the system lets us make them.
 *
 *     npm run siege
 *     npm run siege -- --seconds 10 --only junk --protocol HTTP/1.1 --workers 1
 */
import { parseArgs } from "node:util";
import { VERSIONS } from "../support/buyer.ts";
import { ATTACKS, PROTOCOLS, type Attack } from "./attacks.ts";
import { besiege, BUYERS, VISITORS, type SiegeReport } from "./run.ts";
import type { Told } from "./guests.ts";
import { BUNDLE, enterNetwork, MEMORY_BYTES } from "./container.ts";
import { LATENCY_MS, openGateway, openNginx, type Stage } from "./stages.ts";
import { nginxVersion } from "../bench/contenders/nginx.ts";

/** What must hold of each siege. */
const MOST_WAIT_MS = 2_000;
/** Where it does not, so many of those who waited longest are told of. */
const TOLD_SLOWEST = 8;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    /** Part of an attack's name. */
    only: { type: "string", default: "" },
    protocol: { type: "string" },
    workers: { type: "string" },
    addresses: { type: "string" },
  },
});
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const stages = [
  { protocol: PROTOCOLS[0], workers: 1 },
  { protocol: PROTOCOLS[1], workers: 1 },
  { protocol: PROTOCOLS[0], workers: 2 },
].filter(({ protocol, workers }) => {
  const isWanted = values.protocol === undefined || values.protocol === protocol;
  return isWanted && (values.workers === undefined || Number(values.workers) === workers);
});
const isBesideNginx =
  values.protocol === undefined && values.workers === undefined && nginxVersion() !== null;
const seconds = Number(values.seconds);
const addresses = values.addresses === undefined ? [1, 200] : [Number(values.addresses)];

const missing = enterNetwork();
say(
  `${BUYERS} buyers and ${VISITORS} visitors, ${seconds} s each, the node ${LATENCY_MS} ms away\n`,
);
if (missing !== null) say(missing);
let broken = 0;
for (const { protocol, workers } of stages) {
  say(`\ncoinslot, ${protocol}${workers > 1 ? `, ${workers} workers` : ""}`);
  await layAll(ATTACKS, () => openGateway(BUYERS, { protocol, workers, main: BUNDLE }));
}
if (isBesideNginx) {
  say("\nnginx, HTTP/1.1, for comparison");
  const front = ATTACKS.filter(({ isFrontDoor }) => isFrontDoor);
  await layAll(front, openNginx, false);
}
say(broken === 0 ? "\nall held" : `\n${broken} promises broken`);
process.exitCode = broken === 0 ? 0 : 1;

/** Each at a stage of its own, since what a process has held once it may keep; at first nobody, to compare with. */
async function layAll(
  attacks: readonly Attack[],
  open: () => Promise<Stage>,
  isJudged = true,
): Promise<void> {
  const wanted = attacks.filter(({ name }) => name.includes(values.only));
  const sieges = wanted.flatMap((attack) => addresses.map((count) => [attack, count] as const));
  for (const [attack, count] of [[null, 0] as const, ...sieges]) {
    await using stage = await open();
    const report = await besiege(stage, { attack, addresses: count, seconds });
    const from = count === 1 ? "one address" : `${count} addresses`;
    say(`  ${attack === null ? "nobody" : `${attack.name} from ${from}`}: ${tell(report)}`);
    const faults = faultsOf(report);
    if (isJudged) broken += faults.length;
    for (const fault of faults) say(`    ${isJudged ? "BROKEN " : ""}${fault}`);
    for (const told of toldOf("visitors", report.visitors)) say(`    ${told}`);
  }
}

function tell({ buyers, visitors, residentBytes, opened, cut }: SiegeReport): string {
  return [
    ...Object.entries({ buyers, visitors }).flatMap(([who, told]) => {
      if (told.served.length + told.refused === 0) return [];
      const waits = [0.5, 0.99].map((share) => Math.round(told.within(share)));
      const versions = VERSIONS.map((version) => `${told.in(version)} in version ${version}`);
      const paid = who === "buyers" ? ` (${versions.join(", ")})` : "";
      return [`${told.served.length} ${who} served${paid}, p50 ${waits[0]} ms, p99 ${waits[1]} ms`];
    }),
    `${Math.round(residentBytes / 1024 / 1024)} MiB`,
    `${opened} connections, ${cut} cut`,
  ].join("; ");
}

/** What must hold for buyers, and of the process. Visitors of what is free may be told to come again. */
function faultsOf({ buyers, residentBytes, unready, left }: SiegeReport): string[] {
  const faults: string[] = [...left, ...toldOf("buyers", buyers)];
  const p99 = Math.round(buyers.within(0.99));
  if (p99 > MOST_WAIT_MS) {
    const slowest = buyers.slowest(TOLD_SLOWEST).map(({ detail }) => detail);
    faults.push(`p99 of buyers: ${p99} ms (${slowest.join("; ")})`);
  }
  const residentMib = Math.round(residentBytes / 1024 / 1024);
  if (residentBytes > MEMORY_BYTES) faults.push(`${residentMib} MiB`);
  if (unready > 0) faults.push(`/readyz was not 200, ${unready} times`);
  return faults;
}

function toldOf(who: string, { refusals }: Told): readonly string[] {
  return [...refusals].map(([what, count]) => `${count} ${who} were told: ${what}`);
}
