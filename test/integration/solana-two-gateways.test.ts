/**
 * Two gateways with one Solana key and a ledger each: they send the same transaction for one payment, so that
 * no look at the chain tells whose it was. What is left is told here: not one after the other, and `doctor`.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Site } from "../support/serve.ts";
import { sales, SOLANA_ENV, SolanaStage } from "../support/solana-stage.ts";
import { runHere } from "./cli/run-here.ts";

const TIMEOUT_MS = 60_000;

let stage: SolanaStage;

beforeAll(async () => {
  stage = await SolanaStage.open();
});

afterAll(() => stage[Symbol.asyncDispose]());

interface Told {
  readonly subject: string;
  readonly status: string;
  readonly message: string;
}

async function doctor(site: Site): Promise<readonly Told[]> {
  const { stdout } = await runHere(
    ["doctor", join(site.folder, "gateway.yaml"), "--json"],
    SOLANA_ENV,
  );
  return Object(JSON.parse(stdout)).findings;
}

const strange = (told: readonly Told[]) =>
  told.filter(({ message }) => message.includes("are not in this ledger"));

test(
  "what one has sold the other refuses, and doctor says that the key is shared",
  { timeout: TIMEOUT_MS },
  async () => {
    await using one = await Site.create();
    await using two = await Site.create();
    const first = await one.serve(stage.yaml(), SOLANA_ENV);
    const second = await two.serve(stage.yaml(), SOLANA_ENV);
    await Promise.all([first.untilReady(), second.untilReady()]);
    const transaction = stage.pay(await stage.quote(`${first.url}/weather`));
    expect(await stage.present(`${first.url}/weather`, transaction)).toMatchObject({ status: 200 });
    expect(await stage.present(`${second.url}/weather`, transaction)).toMatchObject({
      status: 402,
    });
    expect(await stage.moved()).toEqual(sales(1n));
    expect(stage.served).toBe(1);
    expect(strange(await doctor(one))).toEqual([]);
    expect(strange(await doctor(two))).toMatchObject([
      { status: "warn", message: expect.stringContaining("of its latest 20 transactions 1 are") },
    ]);
  },
);
