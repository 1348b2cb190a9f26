/** Every set of filters that a list of payments can have; those of time and place go together. */
import type { PaymentFilter } from "../../../src/ledger/books.ts";
import { PAYMENT_STATES } from "../../../src/ledger/transition.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";

interface Values {
  readonly network: string;
  readonly payer: string;
  readonly key: PaymentKey;
}

export function everyFilter({ network, payer, key }: Values): readonly PaymentFilter[] {
  const states: Partial<PaymentFilter>[] = [
    {},
    ...PAYMENT_STATES.map((state) => ({ states: [state] })),
    { states: ["SIGNED", "DELIVERED"] },
    { states: PAYMENT_STATES },
  ];
  const members: readonly (readonly Partial<PaymentFilter>[])[] = [
    states,
    [{}, { undelivered: true }, { unrefunded: true }],
    [{}, { held: true }, { held: false }],
    [{}, { network }],
    [{}, { payer }],
    [{}, { sinceMs: 1, after: key }],
  ];
  let filters: readonly PaymentFilter[] = [{ limit: 10 }];
  for (const choices of members) {
    filters = filters.flatMap((each) => choices.map((choice) => ({ ...each, ...choice })));
  }
  return filters;
}
