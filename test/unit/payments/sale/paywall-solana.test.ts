import { expect, onTestFinished, test } from "vitest";
import type { Presented } from "../../../../src/payments/sale/admission.ts";
import { Paywall } from "../../../../src/payments/sale/paywall.ts";
import { LocalPaymentService } from "../../../../src/payments/sale/payment-service.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import type { SettleResponse } from "../../../../src/x402/x402.ts";
import { ManualTime } from "../../gateway/manual-time.ts";
import { ActedFacilitator, paidOf, presented, tell } from "./paywall-stage.ts";
import {
  FEE_PAYER,
  NETWORK,
  OTHER_FEE_PAYER,
  PAYER,
  solanaPayment,
  solanaRequirements,
  type Transfer,
} from "./solana-payment.ts";
import { Told } from "../../gateway/told.ts";

const TRANSACTION = "5wHu1qwD".padEnd(88, "z");
const SETTLED: SettleResponse = {
  success: true,
  transaction: TRANSACTION,
  network: NETWORK,
  payer: PAYER,
};

async function stage(feePayers = new Told({ [NETWORK]: FEE_PAYER })) {
  const time = new ManualTime();
  const ledger = await openSqliteLedger({ path: ":memory:", time, life: "only" });
  onTestFinished(() => ledger.close());
  const facilitator = new ActedFacilitator(ledger);
  facilitator.onVerify = async () => ({ isValid: true, payer: PAYER });
  facilitator.onSettle = async () => SETTLED;
  const logger = createLogger({ level: "silent", format: "json" });
  const paywall = new Paywall({
    payments: new LocalPaymentService({
      facilitator,
      feePayers,
      redemptions: ledger,
      logger,
      time,
    }),
    logger,
    settlementWaitMs: 1_000,
    time,
  });
  return { paywall, facilitator, feePayers, ledger };
}

/** A request that presents such a payment where that fee payer is asked for; null: none is. */
function offered(transfer: Transfer = {}, feePayer: string | null = FEE_PAYER): Presented {
  const { extra: _, ...bare } = solanaRequirements();
  const accepts = [feePayer === null ? bare : { ...bare, extra: { feePayer } }];
  return presented(1, { payment: solanaPayment(transfer), accepts });
}

test("a payment is settled for its own fee payer, and sold once", async () => {
  const { paywall, facilitator, feePayers } = await stage();
  feePayers.tell(NETWORK, OTHER_FEE_PAYER);
  const paid = paidOf(await paywall.admit(offered({}, OTHER_FEE_PAYER)));
  expect(paid.settlement).toEqual({ transaction: TRANSACTION, network: NETWORK, payer: PAYER });
  const [settled] = facilitator.settled;
  expect(settled?.request.paymentRequirements.extra).toEqual({ feePayer: FEE_PAYER });
  await paid.delivered();
  expect(tell(await paywall.admit(offered()))).toBe("invalid_transaction_state");
  expect(facilitator.settled).toHaveLength(1);
});

test("the same transaction with another signature of its payer is no EVM signature's fault", async () => {
  const { paywall } = await stage();
  await paidOf(await paywall.admit(offered())).undelivered({ sent: true, served: null });
  expect(await paywall.admit(offered({ signature: 0xbb }))).toEqual({
    kind: "refused",
    refusal: {
      code: "invalid_payload",
      detail: "this transaction was presented with another signature before",
    },
    replay: "imitated",
  });
});

test("a payment is unavailable, not refused, while nobody is known who pays its network fee", async () => {
  const { paywall, facilitator, ledger } = await stage(new Told());
  expect(await paywall.admit(offered({}, null))).toMatchObject({
    kind: "unavailable",
    refusal: { code: "unexpected_verify_error", detail: expect.stringContaining(NETWORK) },
  });
  expect(facilitator.verified).toEqual([]);
  expect(await ledger.books.list({ limit: 10 })).toEqual([]);
});

test("a payment that was settled is delivered whoever is known by now", async () => {
  const { paywall, feePayers, facilitator } = await stage();
  await paidOf(await paywall.admit(offered())).undelivered({ sent: true, served: null });
  feePayers.tell(NETWORK, undefined);
  expect(tell(await paywall.admit(offered({}, null)))).toBe("admitted");
  expect(facilitator.settled).toHaveLength(1);
});
