/** A session for whoever has signed in, as an answer: the token for programs, and as a cookie for pages. */
import type { Declined } from "../payments/sale/admission.ts";
import type { Paywall } from "../payments/sale/paywall.ts";
import { systemTime } from "../time/time.ts";
import { err, ok, type Refusal, type Result } from "../x402/result.ts";
import { SESSION_HEADER, type BuyerSession, type ProvenAccount } from "../x402/session.ts";
import type { SignIn } from "../x402/sign-in.ts";
import { errorAnswer, type Answer, type OwnAnswer } from "./answers.ts";
import { learnHoldings, UNHELD } from "./holders.ts";
import { membershipsOf } from "./membership.ts";
import type { SessionRequest, SignInTerms } from "./signed-in.ts";

/** After which a ledger or a wallet that could not be asked is asked again, seconds. */
const ASK_AGAIN_SECONDS = 5;

/** A client that asks: its address, and raw lines of every answer to it. */
export interface Asking {
  readonly address: string;
  readonly lines: readonly string[];
}

export async function openSession(
  paywall: Pick<Paywall, "openSession">,
  { terms, asked }: { readonly terms: SignInTerms; readonly asked: SessionRequest },
  asking: Asking,
): Promise<OwnAnswer> {
  const { signIn, sessions } = asked;
  const { lines } = asking;
  if (signIn === null) {
    const gone = ["Set-Cookie", sessions.cookie("", 0)];
    return told({ status: 204, lines: [...lines, ...gone], body: null });
  }
  const proven = await proveAccount(paywall, signIn, terms, asking);
  if (!proven.ok) return proven.error;
  const account = proven.value;
  const nowMs = systemTime.now();
  const { token, untilMs } = sessions.issue(account, nowMs);
  const body = {
    session: token,
    header: SESSION_HEADER,
    payer: account.address,
    network: account.network,
    expiresAt: new Date(untilMs).toISOString(),
  };
  const seconds = Math.floor((untilMs - nowMs) / 1000);
  const kept = ["Set-Cookie", sessions.cookie(token, seconds)];
  return told({ status: 200, lines: [...lines, ...kept], body: JSON.stringify(body) });
}

/** Whose a sign-in is, which is used by that, or a session; else what is answered. */
export async function proveAccount(
  paywall: Pick<Paywall, "openSession">,
  signIn: Result<SignIn | BuyerSession, Refusal>,
  { groups }: SignInTerms,
  { address, lines }: Asking,
): Promise<Result<ProvenAccount, OwnAnswer>> {
  if (!signIn.ok) return err(refused(403, signIn.error.detail, lines));
  const shown = signIn.value;
  if ("kind" in shown) return ok(shown);
  const isAsked = await learnHoldings(groups, shown, address);
  const opened = await paywall.openSession(shown, membershipsOf(groups, shown), address);
  if (opened.ok) return opened;
  // Who might be a member is not told that he is none.
  const isUnknown = !isAsked && opened.error.kind === "refused";
  return err(isUnknown ? notNow(UNHELD, lines) : declinedWord(opened.error, lines));
}

function declinedWord(declined: Declined, lines: readonly string[]): OwnAnswer {
  switch (declined.kind) {
    case "limited":
      return refused(429, "too many sign-ins; use a session", [
        ...lines,
        "Retry-After",
        String(declined.seconds),
      ]);
    case "refused":
      return refused(403, declined.refusal.detail, lines);
    case "barred":
      return refused(declined.status, declined.refusal.detail, lines);
    default:
      return notNow("nobody could be asked who signs in; try again", lines);
  }
}

function notNow(error: string, lines: readonly string[]): OwnAnswer {
  return refused(503, error, [...lines, "Retry-After", String(ASK_AGAIN_SECONDS)]);
}

export function told(answer: Answer): OwnAnswer {
  return { answer, outcome: "free", meter: null };
}

function refused(status: number, error: string, lines: readonly string[]): OwnAnswer {
  return { answer: errorAnswer(status, error, lines), outcome: "refused", meter: null };
}
