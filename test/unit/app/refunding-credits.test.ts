/** Which payments of a buyer bear the refund of what he has not used. */
import { describe, expect, test } from "vitest";
import { planRefund } from "../../../src/app/refunding-credits.ts";
import type { PayerCredits, RefundablePurchase } from "../../../src/ledger/books.ts";
import { creditsPot } from "../../../src/ledger/pots.ts";
import { networkOf, type NetworkName } from "../../../src/x402/network.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { PAYER } from "../ledger/example-payment.ts";

const potOn = (network: NetworkName): string => creditsPot(networkOf(network), PAYER);
const bought = (
  key: string,
  network: NetworkName,
  amount: bigint,
  isByHand = false,
): RefundablePurchase => ({
  key: key as PaymentKey,
  network,
  asset: networkOf(network).asset.address,
  pot: potOn(network),
  amount,
  isByHand,
});
const PURCHASES = [
  bought("newest", "base", 1_000_000n),
  bought("polygon's", "polygon", 5_000_000n),
  bought("oldest", "base", 1_000_000n),
];
const credits = (free: bigint, leased = 0n): PayerCredits => ({
  balances: [{ pot: potOn("base"), free, leased }],
  purchases: PURCHASES,
});
const everywhere = (): boolean => true;
const plan = (
  found: PayerCredits,
  order: { readonly network?: string; readonly amount?: string } = {},
  mayBeSent: Parameters<typeof planRefund>[2] = everywhere,
): unknown => {
  const planned = planRefund(found, { payer: PAYER, ...order }, mayBeSent);
  if (planned.kind === "refused") return planned.reason;
  const parts = planned.parts.map(
    ({ purchase, amountAtomic }) => `${purchase.key} ${amountAtomic}`,
  );
  return { parts, left: planned.left };
};

describe("what is unspent", () => {
  test("goes back on the networks on which it was bought, the newest payments first", () => {
    expect(plan(credits(6_500_000n))).toEqual({
      parts: ["newest 1000000", "polygon's 5000000", "oldest 500000"],
      left: 0n,
    });
    expect(plan(credits(400_000n))).toEqual({ parts: ["newest 400000"], left: 0n });
    expect(plan(credits(6_500_000n), { amount: "$1.50" })).toEqual({
      parts: ["newest 1000000", "polygon's 500000"],
      left: 0n,
    });
  });

  test("goes back on one network as far as it was bought there, and what stays is told", () => {
    expect(plan(credits(6_500_000n), { network: "base" })).toEqual({
      parts: ["newest 1000000", "oldest 1000000"],
      left: 4_500_000n,
    });
    expect(plan(credits(6_500_000n), { network: "polygon", amount: "$2" })).toEqual({
      parts: ["polygon's 2000000"],
      left: 0n,
    });
  });

  test("goes back in one where all of it is meant: what is left of a payment could not", () => {
    expect(plan(credits(1_000_000n, 500_000n))).toBe(
      "$0.5 of the balance are in use now: try again when no request has them, or say --amount",
    );
  });

  test("is not asked for where not all of an amount can be had, nor where none is free", () => {
    expect(plan(credits(6_500_000n), { network: "base", amount: "$3" })).toMatch(
      /^only \$2 of it are what payments can be paid back of: .*another network/,
    );
    expect(plan(credits(1_000_000n, 500_000n), { amount: "$1.25" })).toBe(
      "$1 of the balance are free, and $0.5 are in use now: try again when no request has them",
    );
    expect(plan(credits(0n, 500_000n), { amount: "$0.1" })).toMatch(/^\$0 .* free, and \$0\.5/);
    expect(plan(credits(1n), { amount: "1.50" })).toMatch(/is not of the form \$0\.01/);
    expect(plan({ ...credits(1_000_000n), purchases: [] })).toMatch(/^only \$0 of it/);
  });

  test("goes back nowhere without a key for it", () => {
    const onBase = ({ network }: { readonly network: string }): boolean => network === "base";
    expect(plan(credits(6_500_000n), {}, onBase)).toEqual({
      parts: ["newest 1000000", "oldest 1000000"],
      left: 4_500_000n,
    });
    expect(plan(credits(6_500_000n), {}, () => false)).toMatch(/`refunds` has no key/);
  });

  test("is by hand alone of a payment of which a part was paid back", () => {
    const purchases = [bought("rest", "base", 300_000n, true), bought("whole", "base", 200_000n)];
    const found = { ...credits(500_000n), purchases };
    const sent = ({ isByHand }: { readonly isByHand: boolean }): boolean => !isByHand;
    expect(plan(found)).toEqual({ parts: ["rest 300000", "whole 200000"], left: 0n });
    expect(plan(found, {}, sent)).toEqual({ parts: ["whole 200000"], left: 300_000n });
    expect(plan(found, { amount: "$0.3" }, sent)).toMatch(/^only \$0\.2 of it .*--by-hand/);
  });

  test("is of the balance that is meant, where he has several", () => {
    const both = {
      balances: [
        { pot: potOn("base"), free: 1_000_000n, leased: 0n },
        { pot: potOn("base-sepolia"), free: 7n, leased: 0n },
      ],
      purchases: [...PURCHASES, bought("test", "base-sepolia", 10n)],
    };
    expect(plan(both)).toMatch(/balances on evm and evm-testnet: say which with --network/);
    expect(plan(both, { network: "base-sepolia" })).toEqual({ parts: ["test 7"], left: 0n });
    expect(plan(both, { network: "solana" })).toMatch(/has no balance there/);
    expect(plan({ balances: [], purchases: [] })).toMatch(/has no balance$/);
  });
});
