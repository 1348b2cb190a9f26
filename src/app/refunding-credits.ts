/** What an operator pays back of what a buyer has prepaid and not used: which payments of his it belongs to, and each in a step. */
import { openBooks } from "../admin/books.ts";
import type { Config } from "../config/config.ts";
import type { PayerCredits, RefundablePurchase } from "../ledger/books.ts";
import { creditsPot, creditsToken, unitOfPot } from "../ledger/pots.ts";
import { resolveBeside } from "../ledger/sqlite/sqlite-resolutions.ts";
import { systemTime } from "../time/time.ts";
import { formatAmount, parseDollars } from "../x402/amount.ts";
import { networkOf, type NetworkName } from "../x402/network.ts";
import { messageOf } from "../x402/result.ts";
import { paysBack, writeLedger, type Resolved } from "./resolutions.ts";

export interface CreditsRefundOrder {
  readonly payer: string;
  /** Only what was bought there; default: each payment goes back on its own network. */
  readonly network?: string | undefined;
  /** `$1.50`; default: all that is free. */
  readonly amount?: string | undefined;
  /** The operator has sent it by other means. */
  readonly isByHand: boolean;
  readonly note: string;
  /** Who decided, for the histories. */
  readonly by: string;
}

/** One payment of which a part goes back. */
export interface CreditsRefund extends Pick<RefundablePurchase, "key" | "network"> {
  readonly amountAtomic: bigint;
  /** In whole tokens. */
  readonly amount: string;
  readonly symbol: string;
  readonly resolved: Resolved;
}

export type CreditsRefunded =
  /** Nothing was changed. */
  | { readonly kind: "refused"; readonly reason: string }
  | {
      readonly kind: "asked";
      readonly refunds: readonly CreditsRefund[];
      /** Whole tokens of the balance that no payment is left for, or of networks without a key for refunds; null: nothing. */
      readonly left: string | null;
    };

/** How long it is waited for what processes have leased, and how often it is looked at, milliseconds. */
const LEASED_PATIENCE_MS = 5_000;
const LEASED_PAUSE_MS = 250;

type Known = Pick<Config, "store" | "webhooks" | "refunds" | "facilitator">;

/** Throws `LedgerUnavailable` where the ledger cannot be read or written; what was asked for before that stays asked for. */
export async function refundCreditsOf(
  config: Known,
  order: CreditsRefundOrder,
): Promise<CreditsRefunded> {
  const found = await readUnleased(config, order);
  const mayBeSent: MayBe = ({ network, isByHand }) =>
    order.isByHand || (!isByHand && paysBack(config, network));
  const planned = planRefund(found, order, mayBeSent);
  if (planned.kind === "refused") return planned;
  const { parts, decimals, symbol, left } = planned;
  const asked = parts.map(({ purchase: { key, network }, amountAtomic }) => ({
    key,
    network,
    amountAtomic,
    amount: formatAmount(amountAtomic, decimals),
    symbol,
    resolution: {
      verb: "refund",
      note: order.note,
      by: order.by,
      isSent: !order.isByHand,
      creditsAtomic: String(amountAtomic),
    } as const,
  }));
  const refunds: CreditsRefund[] = [];
  // One after the other, each for itself: what is asked for is asked for, whatever becomes of the next.
  await writeLedger(
    config,
    async (ledger) => {
      for (const { resolution, ...part } of asked) {
        const resolved = await ledger
          .step(part.key, { kind: "resolve", resolution })
          .catch(refusal);
        refunds.push({ ...part, resolved });
      }
    },
    async (beside) => {
      for (const { resolution, ...part } of asked) {
        const resolved = await resolveBeside(beside, part.key, resolution).catch(refusal);
        refunds.push({ ...part, resolved });
      }
    },
  );
  return { kind: "asked", refunds, left: left === 0n ? null : formatAmount(left, decimals) };
}

/** All of a balance is waited for, for as long: what a process has leased comes back a second after it was used last. */
async function readUnleased(
  config: Known,
  { payer, amount }: Pick<CreditsRefundOrder, "payer" | "amount">,
): Promise<PayerCredits> {
  const untilMs = systemTime.now() + LEASED_PATIENCE_MS;
  const books = await openBooks(config);
  try {
    for (;;) {
      const found = await books.creditsOf(payer);
      const isLeased = found.balances.some(({ leased }) => leased > 0n);
      if (amount !== undefined || !isLeased || systemTime.now() >= untilMs) return found;
      await systemTime.sleep(LEASED_PAUSE_MS);
    }
  } finally {
    await books.close();
  }
}

/** It may have been done all the same: the payment tells. */
function refusal(cause: unknown): Resolved {
  return { kind: "refused", reason: messageOf(cause) };
}

/** Whether what a payment has put into a balance can be paid back as it was asked for. */
type MayBe = (purchase: Pick<RefundablePurchase, "network" | "isByHand">) => boolean;

interface Part {
  readonly purchase: RefundablePurchase;
  readonly amountAtomic: bigint;
}

type Planned =
  | { readonly kind: "refused"; readonly reason: string }
  | {
      readonly kind: "planned";
      readonly parts: readonly Part[];
      readonly decimals: number;
      readonly symbol: string;
      /** Of the balance, atomic units. */
      readonly left: bigint;
    };

/** Which of his payments it comes out of: the newest first, each up to what it has brought. */
export function planRefund(
  { balances, purchases }: PayerCredits,
  { payer, network, amount }: Pick<CreditsRefundOrder, "payer" | "network" | "amount">,
  mayBeSent: MayBe,
): Planned {
  const chosen = balances
    .filter(({ pot }) => network === undefined || isThere(pot, network, payer))
    .toSorted((one, other) => (one.free > other.free ? -1 : 1));
  const [balance] = chosen;
  if (balance === undefined)
    return refused(`${payer} has no balance${network === undefined ? "" : " there"}`);
  // On one network: of his key, and of his code, one after the other.
  if (chosen.length > 1 && network === undefined) {
    const places = chosen.map(({ pot }) => placeOf(pot)).toSorted();
    return refused(`${payer} has balances on ${places.join(" and ")}: say which with --network`);
  }
  const { family = "", token: symbol = "" } = unitOfPot(balance.pot) ?? {};
  const decimals = creditsToken(family, symbol)?.decimals;
  if (decimals === undefined) return refused(`${symbol} on ${family} is not known`);
  const read = amount === undefined ? undefined : parseDollars(amount, decimals);
  if (read?.ok === false) return refused(`--amount ${read.error.message}`);
  const { free } = balance;
  const wanted = read?.value ?? free;
  const isAll = read === undefined;
  const fault = faultOf(balance, { wanted, isAll, decimals });
  if (fault !== null) return refused(fault);
  const own = purchases.filter((each) => each.pot === balance.pot);
  const there = own.filter((each) => network === undefined || each.network === network);
  const parts: Part[] = [];
  let left = wanted;
  for (const purchase of there.filter(mayBeSent)) {
    if (left === 0n) break;
    const amountAtomic = purchase.amount < left ? purchase.amount : left;
    parts.push({ purchase, amountAtomic });
    left -= amountAtomic;
  }
  if (parts.length === 0 || (left > 0n && amount !== undefined)) {
    return refused(
      missing(
        wanted - left,
        decimals,
        there.find((each) => !mayBeSent(each)),
      ),
    );
  }
  return { kind: "planned", parts, decimals, symbol, left };
}

/** Why so much of it cannot be had now; null: it can. */
function faultOf(
  { free, leased }: Pick<PayerCredits["balances"][number], "free" | "leased">,
  {
    wanted,
    isAll,
    decimals,
  }: { readonly wanted: bigint; readonly isAll: boolean; readonly decimals: number },
): string | null {
  const [unused, used] = [free, leased].map((each) => `$${formatAmount(each, decimals)}`);
  const again = "are in use now: try again when no request has them";
  // A payment is paid back once: what is left of one could not be.
  if (isAll && leased > 0n) return `${used} of the balance ${again}, or say --amount`;
  if (wanted > 0n && wanted <= free) return null;
  return `${unused} of the balance are free${leased === 0n ? "" : `, and ${used} ${again}`}`;
}

function isThere(pot: string, name: string, payer: string): boolean {
  const network = networkOf(name as NetworkName);
  return [undefined, name as NetworkName].some(
    (codeOn) => creditsPot(network, payer, codeOn) === pot,
  );
}

/** Its family, or the network of the code that has it. */
function placeOf(pot: string): string {
  const [, code] = pot.split("@");
  return code ?? unitOfPot(pot)?.family ?? pot;
}

function missing(
  covered: bigint,
  decimals: number,
  unsent: Pick<RefundablePurchase, "isByHand"> | undefined,
): string {
  const why =
    unsent?.isByHand === true
      ? "what is left of a payment of which a part was paid back is not sent (--by-hand says that you have paid it back yourself)"
      : unsent !== undefined
        ? "`refunds` has no key for a network on which it was bought (--by-hand says that you have paid it back yourself)"
        : "what else has bought the balance is not delivered, was bought on another network, or is not in the " +
          "ledger any more";
  return `only $${formatAmount(covered, decimals)} of it are what payments can be paid back of: ${why}`;
}

function refused(reason: string): { readonly kind: "refused"; readonly reason: string } {
  return { kind: "refused", reason };
}
