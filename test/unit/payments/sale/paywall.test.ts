import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { FacilitatorFault } from "../../../../src/payments/facilitator.ts";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import { MAX_WAITING_FOR_ONE } from "../../../../src/payments/sale/waiting.ts";
import type { SettleResponse } from "../../../../src/x402/x402.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import {
  elsewhere,
  failing,
  paidOf,
  paywallStage,
  presented,
  repriced,
  REVERTED,
  SETTLED,
  sold,
  stateOf,
  tell,
  TRANSACTION,
  WAIT_MS,
} from "./paywall-stage.ts";

const unknownFault = () =>
  new FacilitatorFault("unknown", "unexpected_settle_error", "no answer came");
const down = () => new LedgerUnavailable("disk full");

describe("a payment", () => {
  it("is verified, settled and then admitted, and delivered it is sold", async () => {
    const { paywall, ledger, facilitator } = await paywallStage();
    const states: string[] = [];
    facilitator.onVerify = async () => {
      states.push(await stateOf(ledger));
      return { isValid: true, payer: PAYER };
    };
    const paid = paidOf(await paywall.admit(presented()));
    states.push(await stateOf(ledger));
    expect(paid).toMatchObject({
      settlement: { transaction: TRANSACTION, network: "base-sepolia", payer: PAYER },
      isLast: false,
    });
    await paid.delivered();
    expect([...states, await stateOf(ledger)]).toEqual(["CLAIMED", "DELIVERING", "DELIVERED"]);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("that 50 requests present at once is settled once and sold once", async () => {
    const { paywall, facilitator } = await paywallStage();
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const admission = await paywall.admit(presented());
        if (admission.kind === "admitted") await admission.paid.delivered();
        return tell(admission);
      }),
    );
    expect(answers.filter((answer) => answer === "admitted")).toHaveLength(1);
    const waited = answers.filter((answer) => answer === "invalid_transaction_state");
    expect(waited).toHaveLength(MAX_WAITING_FOR_ONE);
    const others = answers.filter((answer) => answer === "unknown");
    expect(others).toHaveLength(49 - MAX_WAITING_FOR_ONE);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is held while the same is in flight, and not longer than its time", async () => {
    const { paywall, time } = await paywallStage();
    const paid = paidOf(await paywall.admit(presented()));
    const second = paywall.admit(presented());
    await time.advance(WAIT_MS - 1);
    const third = paywall.admit(presented());
    await time.advance(1);
    expect(tell(await second)).toBe("unknown");
    await paid.undelivered({ sent: true, served: null });
    expect(tell(await third)).toBe("admitted");
  });

  it("of less time than the limit is held for that", async () => {
    const { paywall, time } = await paywallStage();
    const brief = repriced({ maxTimeoutSeconds: 5 });
    paidOf(await paywall.admit(brief));
    const second = paywall.admit(brief);
    await time.advance(5_000);
    expect(tell(await second)).toBe("unknown");
  });

  it("with another's nonce and another signature is forged, whatever state that one is in", async () => {
    const { paywall, facilitator } = await paywallStage();
    const { payment } = presented();
    const forgery = presented(1, {
      payment: {
        ...payment,
        payload: { ...payment.payload, signature: `0x${"cd".repeat(65)}` },
      },
    });
    facilitator.onSettle = async () => Promise.reject(unknownFault());
    expect(tell(await paywall.admit(presented()))).toBe("unknown");
    expect(tell(await paywall.admit(forgery))).toBe("invalid_exact_evm_payload_signature");
    facilitator.onSettle = async () => SETTLED;
    await paidOf(await paywall.admit(presented())).delivered(sold());
    expect(tell(await paywall.admit(forgery))).toBe("invalid_exact_evm_payload_signature");
  });

  it("is bound to the method and path of its first use", async () => {
    const { paywall } = await paywallStage();
    const other = presented(1, { binding: "POST /premium-data" });
    const paid = paidOf(await paywall.admit(presented()));
    await paid.undelivered({ sent: true, served: null });
    expect(tell(await paywall.admit(other))).toBe("invalid_payload");
    expect(tell(await paywall.admit(presented()))).toBe("admitted");
  });
});

describe("a settlement whose outcome is unknown", () => {
  it("is never answered with 402, and asked for again with its own terms", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    expect(tell(await paywall.admit(presented()))).toBe("unknown");
    expect(await stateOf(ledger)).toBe("SIGNED");

    // The seller has doubled the price meanwhile.
    facilitator.onSettle = async () => SETTLED;
    facilitator.judge = ({ paymentRequirements }) =>
      paymentRequirements.maxAmountRequired === "20000"
        ? {
            isValid: false,
            invalidReason: "invalid_exact_evm_payload_authorization_value",
            payer: PAYER,
          }
        : undefined;
    const again = await paywall.admit(repriced({ maxAmountRequired: "20000" }));
    expect(paidOf(again).settlement.transaction).toBe(TRANSACTION);
    const [first, second] = facilitator.settled;
    expect(first).toMatchObject({ idempotencyKey: "key-1" });
    expect(first).not.toHaveProperty("askedBefore");
    expect(second).toMatchObject({
      idempotencyKey: "key-1",
      askedBefore: "https://f.example",
      request: { paymentRequirements: { maxAmountRequired: "10000" } },
    });
    expect(facilitator.verified).toHaveLength(1);
  });

  it("stays so when its facilitator cannot be reached the second time", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    for (const kind of ["unknown", "unavailable", "unreachable"] as const) {
      const fault = new FacilitatorFault(kind, "unexpected_settle_error", "no");
      facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
      if (kind !== "unknown") facilitator.onSettle = async () => Promise.reject(fault);
      expect(tell(await paywall.admit(presented()))).toBe("unknown");
      expect(await stateOf(ledger)).toBe("SIGNED");
    }
  });

  it("ends when its facilitator says for certain that it failed", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    await paywall.admit(presented());
    facilitator.onSettle = async () => REVERTED;
    expect(await paywall.admit(presented())).toMatchObject({
      kind: "refused",
      settlement: { success: false },
    });
    expect(await stateOf(ledger)).toBe("FAILED");
  });

  it("of bytes of ours is unknown even when the facilitator calls it failed", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    const { key } = examplePayment(1);
    facilitator.onSettle = async (request, { idempotencyKey }) => {
      await ledger.step(key, { kind: "begin", request, caller: idempotencyKey });
      const lease = await ledger.signing.lease("base-sepolia", PAYER);
      if (lease === undefined) throw new Error("no lease");
      await ledger.signing.signed([key], { ...lease, seed: 0 }, (accountNonce) => ({
        transaction: TRANSACTION,
        raw: "0x02",
        account: PAYER,
        accountNonce,
      }));
      return REVERTED;
    };
    expect(tell(await paywall.admit(presented()))).toBe("unknown");
    expect(await stateOf(ledger)).toBe("SIGNED");

    facilitator.onSettle = async () => {
      await ledger.step(key, {
        kind: "failed",
        failure: { code: "invalid_transaction_state", detail: "it reverted" },
      });
      return REVERTED;
    };
    expect(await paywall.admit(presented())).toMatchObject({
      kind: "refused",
      refusal: { detail: "it reverted" },
      settlement: { success: false },
    });
  });

  it("because the ledger failed at the end of it is delivered by the next request", async () => {
    const error = down();
    const { paywall, facilitator } = await paywallStage({
      redemptions: (ledger) => failing(ledger, { settled: { count: 1, error } }),
    });
    facilitator.onSettle = elsewhere(async () => SETTLED);
    expect(tell(await paywall.admit(presented()))).toBe("unknown");
    expect(tell(await paywall.admit(presented()))).toBe("admitted");
    expect(facilitator.settled.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      "key-1",
      "key-1",
    ]);
  });
});

describe("a claim", () => {
  it("is dropped when the payment is refused, and may come again", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onVerify = async () => ({
      isValid: false,
      invalidReason: "insufficient_funds",
      payer: PAYER,
    });
    expect(await paywall.admit(presented())).toEqual({
      kind: "refused",
      refusal: { code: "insufficient_funds", detail: "the facilitator refused the payment" },
    });
    expect(await stateOf(ledger)).toBe("(none)");
    facilitator.onVerify = async () => ({ isValid: true, payer: PAYER });
    expect(tell(await paywall.admit(presented()))).toBe("admitted");
  });

  it.each(["unreachable", "unavailable"] as const)(
    "is dropped when its facilitator is %s, though it was handed over",
    async (kind) => {
      const { paywall, facilitator, ledger } = await paywallStage();
      const fault = new FacilitatorFault(kind, "unexpected_settle_error", "not now");
      facilitator.onSettle = elsewhere(async () => Promise.reject(fault));
      expect(tell(await paywall.admit(presented()))).toBe("unavailable");
      expect(await stateOf(ledger)).toBe("(none)");
    },
  );

  it("is dropped when the verification fails, also by taking too long", async () => {
    const { paywall, facilitator, ledger, time } = await paywallStage();
    facilitator.onVerify = async () => Promise.reject(new Error("a bug"));
    expect(tell(await paywall.admit(presented()))).toBe("unavailable");
    facilitator.onVerify = (_request, signal) =>
      new Promise((_resolve, reject) => {
        const code = "unexpected_verify_error";
        const fault = new FacilitatorFault("unavailable", code, "too slow");
        signal.addEventListener("abort", () => reject(fault));
      });
    const slow = paywall.admit(presented());
    while (facilitator.verified.length < 2) await turn();
    await time.advance(9_999);
    expect(await stateOf(ledger)).toBe("CLAIMED");
    await time.advance(1);
    expect(await slow).toMatchObject({ refusal: { code: "unexpected_verify_error" } });
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("is kept when it is not certain that nothing was sent", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    for (const cause of [unknownFault(), new Error("a bug"), down()]) {
      facilitator.onSettle = async () => Promise.reject(cause);
      expect(tell(await paywall.admit(presented()))).toBe("unknown");
      expect(await stateOf(ledger)).toBe("CLAIMED");
    }
  });

  it("that was handed over fails for certain when its facilitator refuses it", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => REVERTED);
    const refusal = { code: "invalid_transaction_state", detail: "it reverted" };
    for (let round = 0; round < 2; round += 1) {
      expect(await paywall.admit(presented())).toMatchObject({
        kind: "refused",
        refusal,
        settlement: { success: false, payer: PAYER, transaction: "" },
      });
    }
    expect(await stateOf(ledger)).toBe("FAILED");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("that was refused is delivered when the chain shows it by now", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => REVERTED, "https://f.example", 4711);
    const doubts: unknown[] = [];
    let seen: SettleResponse | undefined;
    facilitator.onLookAgain = async ({ handedOverAt }) => {
      doubts.push(handedOverAt);
      return seen;
    };
    for (let round = 0; round < 3; round += 1) {
      expect(await paywall.admit(presented())).toMatchObject({ kind: "refused" });
    }
    expect(doubts).toEqual([4711, 4711]);
    seen = SETTLED;
    const admission = await paywall.admit(presented());
    expect(admission).toMatchObject({
      kind: "admitted",
      paid: { settlement: { transaction: TRANSACTION } },
    });
    expect(await stateOf(ledger)).toBe("DELIVERING");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("that was refused stays so when the chain says it too, and it is not asked any more", async () => {
    const { paywall, facilitator } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => REVERTED, "https://f.example", 4711);
    let looks = 0;
    facilitator.onLookAgain = async () => {
      looks += 1;
      return { ...REVERTED, detail: "it expired" };
    };
    for (let round = 0; round < 4; round += 1) {
      const refusal = { detail: "it reverted" };
      expect(await paywall.admit(presented())).toMatchObject({ kind: "refused", refusal });
    }
    expect(looks).toBe(1);
  });

  it("that was refused is unknown while the chain cannot be asked", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => REVERTED, "https://f.example", 4711);
    facilitator.onLookAgain = async () => Promise.reject(unknownFault());
    expect(await paywall.admit(presented())).toMatchObject({ kind: "refused" });
    expect(tell(await paywall.admit(presented()))).toBe("unknown");
    expect(await stateOf(ledger)).toBe("FAILED");
  });

  it("is not made for an upstream that would not be asked", async () => {
    const { paywall, ledger, facilitator } = await paywallStage();
    const refusal = {
      kind: "unanswered",
      status: 503,
      reason: "down",
      detail: "",
      sent: false,
      retriable: true,
    } as const;
    const closed = presented(1, { refusal: () => refusal });
    expect(await paywall.admit(closed)).toEqual({ kind: "unservable", refusal });
    expect(await stateOf(ledger)).toBe("(none)");
    expect(facilitator.verified).toHaveLength(0);

    // One that was paid before is delivered all the same: the money is here.
    const paid = paidOf(await paywall.admit(presented()));
    await paid.undelivered({ sent: true, served: null });
    expect(tell(await paywall.admit(closed))).toBe("admitted");
  });
});

describe("claims come before offers", () => {
  it.each([
    ["price", repriced({ maxAmountRequired: "20000" })],
    ["payee", repriced({ payTo: "0x0000000000000000000000000000000000000001" })],
    ["asset", repriced({ asset: "0x0000000000000000000000000000000000000002" })],
    ["network", repriced({ network: "base" })],
    ["scheme", repriced({ scheme: "upto" })],
    ["whole price list", presented(1, { accepts: [] })],
  ])("a paid delivery survives a change of the %s", async (_name, changed) => {
    const { paywall, facilitator } = await paywallStage();
    const paid = paidOf(await paywall.admit(presented()));
    await paid.undelivered({ sent: true, served: null });
    facilitator.judge = () => ({ isValid: false, invalidReason: "invalid_payload", payer: PAYER });
    const again = paidOf(await paywall.admit(changed));
    expect(again.settlement).toEqual(paid.settlement);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("a new payment is judged by what is offered", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    expect(tell(await paywall.admit(repriced({ network: "base" })))).toBe("invalid_network");
    expect(tell(await paywall.admit(repriced({ scheme: "upto" })))).toBe("invalid_scheme");
    facilitator.judge = () => ({
      isValid: false,
      invalidReason: "invalid_exact_evm_payload_recipient_mismatch",
      payer: PAYER,
      detail: "another payee",
    });
    expect(tell(await paywall.admit(presented()))).toBe(
      "invalid_exact_evm_payload_recipient_mismatch",
    );
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("of several offers the one that the signature fits is meant", async () => {
    const { paywall, facilitator } = await paywallStage();
    const [offer] = presented().accepts;
    if (offer === undefined) throw new Error("no offer");
    const dear = { ...offer, maxAmountRequired: "20000", asset: `0x${"1".repeat(40)}` };
    paidOf(await paywall.admit(presented(1, { accepts: [dear, offer] })));
    expect(facilitator.settled[0]?.request.paymentRequirements).toEqual(offer);
  });
});
