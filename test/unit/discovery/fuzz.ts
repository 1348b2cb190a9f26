/**
 * The long form of `random-queries.test.ts`: `npm run fuzz:discovery [QUERIES] [SEED]`. Asks a running listing
 * over HTTP as well, where a fault would be a 5xx: that of the facilitator's endpoints, in this process.
 */
import { createServer } from "node:http";
import { Callers } from "../../../src/facilitator/callers.ts";
import { FacilitatorEndpoints } from "../../../src/facilitator/endpoints.ts";
import { parseDiscoveryQuery, writeListing } from "../../../src/discovery/discovery.ts";
import { entityTag } from "../../../src/discovery/entity-tag.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
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

const endpoints = new FacilitatorEndpoints({
  facilitator: {
    isRemote: () => false,
    precheck: () => undefined,
    verify: () => Promise.reject(new Error("not asked")),
    settle: () => Promise.reject(new Error("not asked")),
    supported: () => Promise.reject(new Error("not asked")),
  },
  list: (raw) => {
    const read = parseDiscoveryQuery(raw);
    if (!read.ok) return { status: 400, body: JSON.stringify(read.error), etag: null };
    const body = writeListing(large, read.value);
    return { status: 200, body, etag: entityTag(body) };
  },
  basePath: "",
  callers: new Callers([]),
  logger: createLogger({ level: "silent", format: "json" }),
});
const server = createServer(endpoints.handle);
const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
const statuses = new Map<number, number>();
const served = Math.min(queries, 20_000);
for (let asked = 0; asked < served; asked += 1) {
  const url = `http://127.0.0.1:${port}/discovery/resources?${randomQuery(random)}`;
  const response = await fetch(url);
  await response.text();
  statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
}
console.log(`${served} queries over HTTP, by status:`, Object.fromEntries(statuses));
await drain(server, AbortSignal.abort());
if ([...statuses.keys()].some((status) => status !== 200 && status !== 400)) process.exitCode = 1;
