import { expect, test } from "vitest";
import { warnOfStrangers } from "../../../src/app/strangers.ts";
import type { PaymentDetail } from "../../../src/ledger/books.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

const NOW_MS = 1_700_000_000_000;
const OURS = "0xaB5801a7D398351b8bE11C439e05C5B3259aeC9B";
const THEIRS = "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9";

/** The books of payments that were signed by somebody, so many milliseconds ago. */
function booksOf(signed: readonly (readonly [account: string, agoMs: number])[]) {
  const details = signed.map(([account, agoMs], index) => ({
    key: `key ${index}`,
    network: "solana-devnet",
    claimedMs: NOW_MS - agoMs,
    submission: { account },
  }));
  return Object({
    list: async () => details,
    show: async (key: string): Promise<PaymentDetail | undefined> =>
      Object(details.find((detail) => detail.key === key)),
  });
}

async function said(signed: readonly (readonly [account: string, agoMs: number])[]) {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const mechanisms = [Object({ accounts: [OURS] })];
  await warnOfStrangers(booksOf(signed), { mechanisms }, { logger }, NOW_MS);
  return lines.map((line) => JSON.parse(line));
}

test("payments that nobody can look after are told once for each account, with their number", async () => {
  const lines = await said([
    [THEIRS, 400_000],
    [THEIRS, 500_000],
    [OURS, 500_000],
  ]);
  expect(lines).toMatchObject([
    { level: "error", network: "solana-devnet", account: THEIRS, payments: 2 },
  ]);
});

test("those of a moment ago may be another replica's, and ours are ours in any letter case", async () => {
  expect(
    await said([
      [THEIRS, 60_000],
      [OURS.toLowerCase(), 500_000],
    ]),
  ).toEqual([]);
});
