/**
 * Agents of which each buys through a `coinslot mcp` of its own that is killed again and again, as the sellers are: that no budget is
 * exceeded, that each call is charged once, and that no call is lost. Ends with 1 where it is otherwise.
 *
 *     npm run prove:agents [-- --agents 50 --calls 20 --affordable 15 --kills 20 --seller-kills 30 --seed 1]
 *     npm run prove:agents -- --mutants
 */
import { parseArgs } from "node:util";
import bundledGateway from "../support/bundled-gateway.ts";
import { runAgentMutants } from "./mutants.ts";

const { values } = parseArgs({
  options: {
    agents: { type: "string", default: "50" },
    calls: { type: "string", default: "20" },
    affordable: { type: "string", default: "15" },
    /** Of agents' processes, in a hundred calls. */
    kills: { type: "string", default: "20" },
    "seller-kills": { type: "string", default: "30" },
    seed: { type: "string", default: "1" },
    /** Takes the guards away one by one, and sees whether the tests of the units notice. */
    mutants: { type: "boolean", default: false },
    /** Part of the name of a mutant. */
    case: { type: "string", default: "" },
  },
});
if (values.mutants) process.exit((await runAgentMutants(values.case, console.log)) ? 0 : 1);
// Hundreds of processes are started: from the sources each takes twice the CPU.
bundledGateway();
const { runCrowd } = await import("./crowd.ts");
const began = performance.now();
const { answered, refused, lost, charged, violations, kills, sellerKills } = await runCrowd({
  agents: Number(values.agents),
  calls: Number(values.calls),
  affordable: Number(values.affordable),
  atOnce: 4,
  killsInHundred: Number(values.kills),
  sellerKills: Number(values["seller-kills"]),
  seed: Number(values.seed),
});
const seconds = Math.round((performance.now() - began) / 1_000);
console.log(
  `${values.agents} agents, ${values.calls} calls each: ${answered} answered, ${refused} refused by a budget, ` +
    `${lost.length} lost; charged ${charged} atomic units; ${kills} kills of agents, ${sellerKills} of sellers; ${violations.length} violations; ${seconds} s`,
);
for (const each of [...violations, ...lost].slice(0, 20)) console.log(`  ${each}`);
const { agents, calls, affordable } = values;
const wanted = Number(agents) * Math.min(Number(calls), Number(affordable));
if (answered !== wanted) console.log(`  ${wanted} of them should have been answered`);
if (violations.length > 0 || lost.length > 0 || answered !== wanted) process.exitCode = 1;
