/** What an account has prepaid, for itself: whoever has signed in, or shows a session, and nobody else. */
import type { PotBalance } from "../ledger/ledger.ts";
import { spendablePots } from "../ledger/ledger.ts";
import type { Paywall } from "../payments/sale/paywall.ts";
import { formatAmount } from "../x402/amount.ts";
import { SESSION_HEADER, type ProvenAccount } from "../x402/session.ts";
import { SIGN_IN_HEADER } from "../x402/sign-in.ts";
import { errorAnswer, type OwnAnswer } from "./answers.ts";
import { proveAccount, told, type Asking } from "./sessions.ts";
import type { ShownSignIn, SignInTerms } from "./signed-in.ts";

/** Where balances are told at one site, and where more is bought. */
export interface BalanceTerms {
  /** Canonical path. */
  readonly path: string;
  /** Absolute; null: nothing is sold here now. */
  readonly buy: string | null;
}

/** One who asks what he has: null, nothing of whom is known. */
export interface BalanceRequest {
  readonly terms: SignInTerms;
  readonly shown: ShownSignIn | null;
  readonly buy: string | null;
}

export async function balanceAnswer(
  paywall: Pick<Paywall, "openSession" | "balances">,
  { terms, shown, buy }: BalanceRequest,
  asking: Asking,
): Promise<OwnAnswer> {
  const { lines } = asking;
  if (shown === null) {
    const said = `show ${SESSION_HEADER}, or ${SIGN_IN_HEADER} for a challenge of ${terms.url}`;
    const answer = errorAnswer(401, said, [...lines, "WWW-Authenticate", SESSION_HEADER]);
    return { answer, outcome: "refused", meter: null };
  }
  const proven = await proveAccount(paywall, shown.signIn, terms, asking);
  if (!proven.ok) return proven.error;
  const account = proven.value;
  const pots = spendablePots(account);
  const balances = await paywall.balances([...pots.keys()]);
  const credits = [...pots].flatMap(([pot, unit]) => {
    const balance = balances.get(pot);
    return balance === undefined ? [] : [{ ...unit, ...counted(balance, unit.decimals) }];
  });
  const body = { payer: account.address, ...placeOf(account), credits, buy };
  const vary = ["Vary", `${SESSION_HEADER}, ${SIGN_IN_HEADER}, Cookie`];
  return told({ status: 200, lines: [...lines, ...vary], body: JSON.stringify(body) });
}

/** What code has prepaid is on its own chain alone. */
function placeOf({ hasKey, network }: ProvenAccount): { readonly network?: string } {
  return hasKey ? {} : { network };
}

/** All of it, be it leased or not: what was used a moment ago may still be in it. */
function counted(
  { free, leased }: PotBalance,
  decimals: number,
): { readonly amount: string; readonly dollars: string } {
  const amount = free + leased;
  return { amount: amount.toString(), dollars: formatAmount(amount, decimals) };
}
