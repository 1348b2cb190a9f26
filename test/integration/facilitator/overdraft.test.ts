/**
 * Payers who present more than they have, all at once, at a node that shows no transaction before it is in a
 * block: whatever is signed moves money. And payers who have enough, who are not held up.
 */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openPostgresLedger } from "../../../src/ledger/postgres/postgres.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { SettleResponse } from "../../../src/x402/x402.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import {
  startFacilitator,
  type FacilitatorSetup,
  type RunningFacilitator,
} from "../../support/facilitator.ts";
import { ourTransactions } from "../../support/our-transactions.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { newPayment, silent, type Payment } from "./stage.ts";

const PRICE = 10_000n;
/** Longer than anything here takes, milliseconds. */
const PATIENCE_MS = 60_000;

let chain: Chain;
let blind: RpcProxy;

beforeEach(async () => {
  chain = await startChain({ blockTime: 1 });
  blind = await startRpcProxy(chain.rpcUrl, { blind: true });
});

afterEach(async () => {
  await blind[Symbol.asyncDispose]();
  await chain.stop();
});

const start = (setup: Partial<FacilitatorSetup> = {}): Promise<RunningFacilitator> =>
  startFacilitator({ chain, rpcUrl: blind.url, ...setup });

/** Payments of one payer, who has so many prices. */
async function paymentsOf(
  count: number,
  prices: number,
  payer: FreshAccount = freshAccount(),
): Promise<readonly Payment[]> {
  await chain.fund(payer.address, PRICE * BigInt(prices));
  const options = { payer, funds: 0n, requirements: { maxTimeoutSeconds: 300 } };
  return Promise.all(Array.from({ length: count }, () => newPayment(chain, options)));
}

/** As a resource server does: each is verified, then settled; all at once, at each of them in turn. */
async function buyAll(
  sellers: readonly RunningFacilitator[],
  payments: readonly Payment[],
): Promise<readonly (SettleResponse | "invalid")[]> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  return Promise.all(
    payments.map(async ({ request, nonce }, index) => {
      const { facilitator } = sellers[index % sellers.length] ?? sellers[0]!;
      const { isValid } = await onTheWire(facilitator).verify(request, signal);
      if (!isValid) return "invalid";
      return onTheWire(facilitator).settle(request, { signal, idempotencyKey: nonce });
    }),
  );
}

/** Every payment that we have paid a fee for moved money; so many did. */
async function expectMoved(sellers: readonly RunningFacilitator[], count: number): Promise<void> {
  const signers = sellers.flatMap((each) => each.signers);
  const { carried, moved } = await ourTransactions(chain, signers);
  expect({ carried, moved }).toEqual({ carried: count, moved: count });
}

function expectSold(answers: readonly (SettleResponse | "invalid")[], count: number): void {
  const sold = answers.filter((answer) => answer !== "invalid" && answer.success);
  const reasons = new Set(
    answers.flatMap((answer) => {
      return answer === "invalid" || answer.success ? [] : [answer.errorReason];
    }),
  );
  expect(sold).toHaveLength(count);
  expect([...reasons].filter((reason) => reason !== "insufficient_funds")).toEqual([]);
}

describe("at a node that shows nothing before it is in a block", { timeout: PATIENCE_MS }, () => {
  it.each([1, 2])(
    "one price buys once, however often it is presented (accounts: %i)",
    async (signers) => {
      await using seller = await start({ signers });
      const payments = await paymentsOf(40, 1);
      expectSold(await buyAll([seller], payments), 1);
      await expectMoved([seller], 1);
    },
  );

  it("twenty payers with one price and five payments each buy once each", async () => {
    await using seller = await start();
    const all = await Promise.all(Array.from({ length: 20 }, () => paymentsOf(5, 1)));
    expectSold(await buyAll([seller], all.flat()), 20);
    await expectMoved([seller], 20);
  });

  it("one who has enough for all of his payments has all of them settled", async () => {
    await using seller = await start();
    const payments = await paymentsOf(30, 30);
    expectSold(await buyAll([seller], payments), 30);
    await expectMoved([seller], 30);
  });

  it("what one payment leaves buys again, once that is in a block", async () => {
    await using seller = await start();
    const payer = freshAccount();
    const [first, ...more] = await paymentsOf(4, 2, payer);
    if (first === undefined) throw new Error("a payment");
    expectSold(await buyAll([seller], [first]), 1);
    expectSold(await buyAll([seller], more), 1);
    await expectMoved([seller], 2);
  });

  it("honest payers are not held up by one who presents too much", async () => {
    await using seller = await start();
    const honest = await Promise.all(Array.from({ length: 10 }, () => paymentsOf(1, 1)));
    const many = await paymentsOf(40, 1);
    const [, answers] = await Promise.all([
      buyAll([seller], many),
      buyAll([seller], honest.flat()),
    ]);
    expectSold(answers, 10);
    await expectMoved([seller], 11);
  });
});

describe("at a node that shows what is on its way", { timeout: PATIENCE_MS }, () => {
  it("one who has just enough for all of his payments has all of them settled", async () => {
    await using seller = await start({ rpcUrl: chain.rpcUrl });
    const payments = await paymentsOf(60, 60);
    expectSold(await buyAll([seller], payments), 60);
    await expectMoved([seller], 60);
  });
});

describe("two replicas on one PostgreSQL ledger", { timeout: PATIENCE_MS }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("sell once for one price, each with an account of its own", async () => {
    await using closing = new AsyncDisposableStack();
    const url = await server.database();
    const open = async (life: string): Promise<RunningFacilitator> => {
      const { logger } = silent();
      const ledger = await openPostgresLedger({ url, life, time: systemTime, logger });
      closing.defer(() => ledger.close());
      return closing.use(await start({ ledger }));
    };
    const sellers = [await open(randomUUID()), await open(randomUUID())];
    await Promise.all(sellers.map(({ facilitator }) => facilitator.recover()));
    const one = await paymentsOf(40, 1);
    const three = await paymentsOf(12, 3);
    expectSold(await buyAll(sellers, [...one, ...three]), 4);
    await expectMoved(sellers, 4);
  });
});
