/** Which new payments are remembered that collect what is owed, and whose. */
import { expect, it } from "vitest";
import {
  MAX_REMEMBERED,
  MAX_REMEMBERED_OF_PAYER,
  Proofs,
} from "../../../../src/payments/sale/proofs.ts";
import { checksumAddress } from "../../../../src/x402/address.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { paidOf, paywallStage, presented, tell } from "./paywall-stage.ts";

const OWED = [examplePayment(1)];
const keyOf = (number: number) => examplePayment(number).key;
const BROKEN = { sent: true, served: null } as const;

it("a payer has so many and no more, the oldest goes first, and nobody else's goes for them", () => {
  const proofs = new Proofs();
  proofs.remember(keyOf(0), "somebody", OWED);
  for (let number = 1; number <= MAX_REMEMBERED + 1; number += 1) {
    proofs.remember(keyOf(number), "signs and signs", OWED);
  }
  expect(proofs.find(keyOf(0))).toBe(OWED);
  const first = MAX_REMEMBERED + 2 - MAX_REMEMBERED_OF_PAYER;
  expect(proofs.find(keyOf(first - 1))).toBeUndefined();
  expect(proofs.find(keyOf(first))).toBe(OWED);
});

it("of all together there are so many, and what was charged makes room", () => {
  const proofs = new Proofs();
  for (let number = 0; number < MAX_REMEMBERED; number += 1) {
    proofs.remember(keyOf(number), `payer ${number}`, OWED);
  }
  proofs.forget(keyOf(7));
  proofs.remember(keyOf(MAX_REMEMBERED), "one more", OWED);
  expect(proofs.find(keyOf(0))).toBe(OWED);
  proofs.remember(keyOf(MAX_REMEMBERED + 1), "one too many", OWED);
  expect(proofs.find(keyOf(0))).toBeUndefined();
  expect(proofs.find(keyOf(1))).toBe(OWED);
});

it("what is remembered anew takes no other place", () => {
  const proofs = new Proofs();
  for (let time = 0; time < 2; time += 1) {
    for (let number = 0; number < MAX_REMEMBERED_OF_PAYER; number += 1) {
      proofs.remember(keyOf(number), PAYER, OWED);
    }
  }
  expect(proofs.find(keyOf(0))).toBe(OWED);
});

it("a client that repeats its proof is not charged, however many another payer signs", async () => {
  const { paywall, facilitator } = await paywallStage();
  const thief = checksumAddress("0x00000000000000000000000000000000000000aa");
  const signed = (number: number) => {
    const { payment, ...rest } = presented(number);
    const { payload } = payment as { payload: { authorization: { from: string } } };
    const authorization = { ...payload.authorization, from: thief };
    return {
      ...rest,
      payment: { ...payment, payload: { ...payload, authorization } } as typeof payment,
    };
  };
  await paidOf(await paywall.admit(presented(1))).undelivered(BROKEN);
  await paidOf(await paywall.admit(signed(1))).undelivered(BROKEN);
  await paidOf(await paywall.admit(presented(2))).delivered();
  for (let number = 2; number <= MAX_REMEMBERED + 2; number += 1) {
    const shown = { ...signed(number), isGone: () => true };
    expect(tell(await paywall.admit(shown))).toBe("abandoned");
  }
  expect(tell(await paywall.admit(presented(2)))).toBe("invalid_transaction_state");
  expect(facilitator.settled).toHaveLength(2);
});
