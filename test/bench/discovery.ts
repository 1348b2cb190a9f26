/**
 * CPU time of one page of the discovery listing, entity tag included: `npm run bench:discovery [ROUTES]`. For
 * every kind of query the middle, the 99th of 100 and the worst of many pages at random places, each the mean
 * of a few turns: all threads count, so a single turn would show when the garbage of others is collected. The
 * last kind has the terms of some entry changed before each page, as sales of other gateways do, and that is counted.
 * The bar is 5 ms for any page.
 */
import { cpus } from "node:os";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parseDiscoveryQuery, writePage } from "../../src/discovery/discovery.ts";
import { largeCatalogue, seeded } from "../unit/discovery/large-catalogue.ts";
import { sized } from "./size.ts";

/** Milliseconds of CPU. */
const BAR_MS = 5;
const PAGES = sized(400, 5);
const WARM_UP = sized(50, 1);
const TURNS = 5;

const routes = Number(process.argv[2] ?? sized(10_000, 100));
const filters = "metadata[provider]=example+inc.&".repeat(16);
const payee = "0x209693bc6afc0c5328ba36faf03c514ef312287c";
const kinds: Readonly<Record<string, string>> = {
  "no filter": "",
  type: "type=http",
  "metadata, few": "metadata[category]=tides&metadata[tier]=0",
  "16 metadata, all": filters.slice(0, -1),
  "offer, all": `payTo=${payee}&maxPrice=$9999`,
  "offer, none": "network=polygon&maxPrice=$0.000001",
  "q, one letter": "q=i",
  "q, 8 words, all": "q=the+numbered+whatever+is+known+of+it+in",
  "everything, all": `${filters}q=the+n+w+is+known+of+it+in&type=http&payTo=${payee}&maxPrice=9999999999units`,
  "an entry changed": "q=the",
};

const started = process.cpuUsage();
const catalogue = largeCatalogue(routes);
const built = process.cpuUsage(started);
console.log(`${cpus()[0]?.model ?? "?"}, node ${process.version}, ${routes} routes`);
console.log(
  `built in ${((built.user + built.system) / 1_000).toFixed(0)} ms of CPU, once for each configuration`,
);

// What building left behind is collected now, and not within some page.
setFlagsFromString("--expose-gc");
runInNewContext("gc")();

function changeOne(random: () => number): void {
  const { entry } = catalogue.items[Math.floor(random() * catalogue.items.length)] ?? {};
  if (entry === undefined) throw new Error("there are no entries");
  const [first, ...others] = entry.accepts;
  if (first === undefined) throw new Error("an entry that costs nothing");
  const maxAmountRequired = String(1 + Math.floor(random() * 1_000_000));
  const accepts = [
    { ...first, maxAmountRequired, description: `Now ${maxAmountRequired}` },
    ...others,
  ];
  catalogue.put({ ...entry, accepts, lastUpdated: entry.lastUpdated + 1 });
}

let worst = 0;
console.log(
  `${"query".padEnd(18)} ${["middle", "99 %", "worst"].map((name) => name.padStart(8)).join(" ")}  entries`,
);
for (const [name, text] of Object.entries(kinds)) {
  const random = seeded(5);
  const times: number[] = [];
  let total = 0;
  for (let page = 0; page < WARM_UP + PAGES; page += 1) {
    const offset = Math.floor(random() * (total + 1));
    const query = `${text}&limit=100&offset=${offset}`;
    let body = "";
    const before = process.cpuUsage();
    for (let turn = 0; turn < TURNS; turn += 1) {
      if (name === "an entry changed") changeOne(random);
      const read = parseDiscoveryQuery(query);
      if (!read.ok) throw new Error(`${query}: ${read.error.detail}`);
      body = writePage(catalogue, read.value).body();
    }
    const { user, system } = process.cpuUsage(before);
    total = Number(/"total":(\d+)/.exec(body.slice(-100))?.[1]);
    if (page >= WARM_UP) times.push((user + system) / 1_000 / TURNS);
  }
  times.sort((left, right) => left - right);
  const at = (share: number): number => times[Math.floor(share * (times.length - 1))] ?? 0;
  const shown = [at(0.5), at(0.99), at(1)].map((ms) => ms.toFixed(2).padStart(8));
  worst = Math.max(worst, at(1));
  console.log(`${name.padEnd(18)} ${shown.join(" ")}  ${total}`);
}
console.log(`every page takes at most ${worst.toFixed(2)} ms of CPU; the bar is ${BAR_MS} ms`);
if (worst > BAR_MS) process.exitCode = 1;
