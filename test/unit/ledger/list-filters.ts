/** Every set of filters that a list of payments can have. */
import type { PaymentFilter } from "../../../src/ledger/books.ts";
import { PAYMENT_STATES } from "../../../src/ledger/payment-row.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";

interface Values {
  readonly network: string;
  readonly payer: string;
  readonly key: PaymentKey;
}

export function everyFilter({ network, payer, key }: Values): readonly PaymentFilter[] {
  const states = [
    undefined,
    ...PAYMENT_STATES.map((state) => [state]),
    ["SIGNED", "DELIVERED"] as const,
    PAYMENT_STATES,
  ];
  const choices = <Value>(value: Value): readonly (Value | undefined)[] => [undefined, value];
  return states.flatMap((each) =>
    choices(true).flatMap((undelivered) =>
      choices(network).flatMap((on) =>
        choices(payer).flatMap((of) =>
          choices(1).flatMap((sinceMs) =>
            choices(key).map((after) => ({
              ...(each && { states: each }),
              ...(undelivered && { undelivered }),
              ...(on !== undefined && { network: on }),
              ...(of !== undefined && { payer: of }),
              ...(sinceMs !== undefined && { sinceMs }),
              ...(after !== undefined && { after }),
              limit: 10,
            })),
          ),
        ),
      ),
    ),
  );
}
