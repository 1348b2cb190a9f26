/**
 * The long form of `random-queries.test.ts`: `npm run fuzz:discovery [QUERIES] [SEED]`. Asks a running gateway
 * over HTTP as well, where a fault would be a 5xx: at its public listener and at that of its facilitator.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start } from "../../../src/app.ts";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { judgePages, judgeQuery } from "./judged-queries.ts";
import { largeCatalogue, randomFilter, randomQuery, seeded } from "./large-catalogue.ts";

/** Routes of the catalogue that is judged by looking at every entry, and of the one that is asked over HTTP. */
const JUDGED_ROUTES = 300;
const SERVED_ROUTES = 10_000;
const PAGED_FILTERS = 300;

const queries = Number(process.argv[2] ?? 100_000);
const seed = Number(process.argv[3] ?? 1);
const small = largeCatalogue(JUDGED_ROUTES);
const large = largeCatalogue(SERVED_ROUTES);

const verdicts = { listed: 0, refused: 0 };
const random = seeded(seed);
for (let asked = 0; asked < queries; asked += 1) {
  const query = randomQuery(random);
  try {
    verdicts[judgeQuery(small, query)] += 1;
  } catch (cause) {
    console.error(`query ${asked} of seed ${seed}: ${JSON.stringify(query)}`);
    throw cause;
  }
}
console.log(`${queries} queries judged: ${verdicts.listed} listed, ${verdicts.refused} refused`);

let entries = 0;
for (let filter = 0; filter < PAGED_FILTERS; filter += 1) {
  entries += judgePages(large, randomFilter(random), 1 + Math.floor(random() * 100));
}
console.log(
  `${PAGED_FILTERS} filters paged through ${entries} entries: none repeated, none missed`,
);

await using shop = await openShop(SERVED_ROUTES);
const statuses = new Map<number, number>();
for (let asked = 0; asked < queries; asked += 1) {
  const address = shop.addresses[asked % shop.addresses.length];
  const response = await fetch(`${address}/discovery/resources?${randomQuery(random)}`);
  await response.text();
  statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
}
console.log(
  `${queries} queries over HTTP to ${shop.addresses.length} listeners, by status:`,
  Object.fromEntries(statuses),
);
if ([...statuses.keys()].some((status) => status !== 200 && status !== 400)) process.exitCode = 1;

/** A gateway as operators run it, with its public listener and that of its facilitator. */
async function openShop(routes: number) {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-fuzz-"));
  const lines = Array.from({ length: routes }, (_, index) => {
    const name = `/v1/item-${index}${index % 3 === 0 ? "/:id" : ""}`;
    const metadata = `{ category: weather, tier: ${index % 4} }`;
    return `  GET ${name}: { price: $0.0${1 + (index % 9)}, description: Item ${index}, metadata: ${metadata} }`;
  });
  const text = `
listen: 127.0.0.1:0
publicUrl: https://api.example.com
upstream: http://127.0.0.1:1
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: { listen: "127.0.0.1:0", remote: [{ url: "http://127.0.0.1:1" }] }
unmatched: deny
store: sqlite:${folder}/ledger.db
logging: { level: silent }
routes:
${lines.join("\n")}
`;
  const parsed = parseConfig(text, { file: "fuzz.yaml", env: {}, readFile: () => "" });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  const running = await start(parsed.config, "fuzz");
  const { gateway, facilitator } = running.addresses;
  const ports = [gateway[0]?.port, facilitator?.port];
  return {
    addresses: ports.map((port) => `http://127.0.0.1:${port ?? 0}`),
    async [Symbol.asyncDispose]() {
      await running.close({ atOnce: true });
      await rm(folder, { recursive: true, force: true });
    },
  };
}
