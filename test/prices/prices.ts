/**
 * Random prices, each with five random requests: what `routes` tells, what the 402 asks for and what is charged, and how
 * long the longest evaluation takes. Ends with 1 where two of them differ, or one takes more than a millisecond.
 *
 *     npm run prove:prices [-- --prices 10000 --seed 1]
 */
import { parseArgs } from "node:util";
import { agreementOf } from "./agreement.ts";

const MOST_MS = 1;
const { values } = parseArgs({
  options: {
    prices: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
  },
});
const { disagreements, slowestMs, slowest, ...counts } = await agreementOf(
  Number(values.prices),
  Number(values.seed),
);
console.log(
  `${counts.expressions} prices, ${counts.requests} requests: ${counts.priced} priced, ` +
    `${counts.unpriced} without a price, ${disagreements.length} disagreements; ` +
    `longest evaluation ${slowestMs.toFixed(3)} ms`,
);
for (const each of disagreements.slice(0, 20)) console.log(each);
if (slowestMs > MOST_MS) console.log(`  ${slowest}`);
if (disagreements.length > 0 || slowestMs > MOST_MS) process.exitCode = 1;
