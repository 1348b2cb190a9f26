/** When the ledger is swept, and what a fault of it does. */
import { expect, test } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { startSweeper } from "../../../src/app/sweeper.ts";
import type { SweepPlace, SweepStep } from "../../../src/ledger/sweep.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { ManualTime } from "../../support/manual-time.ts";
import { configOf } from "./config-of.ts";

const DAY_MS = 86_400_000;
const START_MS = 1_800_000_000_000;
const place = (id: number): SweepPlace => ({ stage: "payments", ms: 1, id });

const archive = async (): Promise<void> => undefined;

function stage(steps: number, config: () => Pick<Config, "routes"> = () => ({ routes: [] })) {
  const time = new ManualTime(START_MS);
  const asked: (SweepStep & { readonly atMs: number })[] = [];
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const faults: Error[] = [];
  const upkeep = {
    async sweep(step: SweepStep) {
      asked.push({ ...step, atMs: time.now() - START_MS });
      const fault = faults.pop();
      if (fault !== undefined) throw fault;
      const id = Number(step.from?.id ?? 0) + 1;
      return { payments: 2, next: id < steps ? place(id) : undefined };
    },
  };
  const telemetry = { logger, metrics: new Metrics("test") };
  const sweeper = startSweeper(
    { ledger: { upkeep }, telemetry, time },
    { keepMs: 90 * DAY_MS, config, archive },
  );
  return { time, asked, lines, faults, sweeper };
}

test("a round goes on step by step with pauses, and begins anew after a longer one", async () => {
  const { time, asked, lines, sweeper } = stage(3);
  await time.advance(59_999);
  expect(asked).toEqual([]);
  await time.advance(1_000);
  expect(asked.map(({ atMs }) => atMs)).toEqual([60_000, 60_100, 60_200]);
  expect(asked.map(({ from }) => from?.id)).toEqual([undefined, 1, 2]);
  const beforeMs = START_MS + 60_000 - 90 * DAY_MS;
  expect(asked.every((each) => each.beforeMs === beforeMs && each.archive === archive)).toBe(true);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ payments: 6, level: "info" }),
  ]);
  await time.advance(600_000);
  expect(asked.slice(3).map(({ from }) => from?.id)).toEqual([undefined, 1, 2]);
  await sweeper.stop();
});

test("a fault ends the round, and the next one begins where that did", async () => {
  const { time, asked, lines, faults, sweeper } = stage(2);
  faults.push(new Error("the disk is full"));
  await time.advance(61_000);
  expect(asked).toHaveLength(1);
  expect(lines.join("")).toContain("the disk is full");
  await time.advance(600_000);
  expect(asked.slice(1).map(({ from }) => from?.id)).toEqual([undefined, 1]);
  await sweeper.stop();
});

test("it stops between two steps, and before the first one", async () => {
  const early = stage(1);
  await early.sweeper.stop();
  expect(early.asked).toEqual([]);
  const late = stage(1_000);
  await late.time.advance(60_050);
  await late.sweeper.stop();
  await late.time.advance(10_000_000);
  expect(late.asked).toHaveLength(1);
});

test("a purchase stays for as long as it grants something, by the file that is in force", async () => {
  const read = (granting: string): Config =>
    configOf(`
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
${granting}
`);
  const route = (more = "") => `routes: { GET /a: { price: $0.01${more} } }`;
  const pass = "passes: { year: { price: $9, routes: [GET /a], for: 365d } }\n";
  let config = read(route());
  const { time, asked, sweeper } = stage(1, () => config);
  const days: number[] = [];
  for (const granting of [
    route(),
    route(", grants: 2d"),
    route(", grants: 120d"),
    pass + route(),
  ]) {
    config = read(granting);
    await time.advance(660_000);
    const { beforeMs = 0, atMs = 0 } = asked.at(-1) ?? {};
    days.push((START_MS + atMs - beforeMs) / DAY_MS);
  }
  expect(days).toEqual([90, 90, 120, 365]);
  await sweeper.stop();
});
