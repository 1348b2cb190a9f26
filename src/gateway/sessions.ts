/** A session for whoever has signed in, as an answer: the token for programs, and as a cookie for pages. */
import type { Paywall } from "../payments/sale/paywall.ts";
import { systemTime } from "../time/time.ts";
import { SESSION_HEADER } from "../x402/session.ts";
import { errorAnswer, type Answer, type OwnAnswer } from "./answers.ts";
import { membershipsOf } from "./membership.ts";
import type { SessionRequest, SignInTerms } from "./signed-in.ts";

/** After which a ledger or a wallet that could not be asked is asked again, seconds. */
const ASK_AGAIN_SECONDS = 5;

/** @param address of the client that asks */
export async function openSession(
  paywall: Pick<Paywall, "openSession">,
  { terms, asked }: { readonly terms: SignInTerms; readonly asked: SessionRequest },
  { address, lines }: { readonly address: string; readonly lines: readonly string[] },
): Promise<OwnAnswer> {
  const { sessions, groups } = terms;
  const { signIn } = asked;
  if (signIn === null) {
    const gone = ["Set-Cookie", sessions.cookie("", 0)];
    return told({ status: 204, lines: [...lines, ...gone], body: null });
  }
  if (!signIn.ok) return refused(403, signIn.error.detail, lines);
  const memberships = membershipsOf(groups, signIn.value);
  const opened = await paywall.openSession(signIn.value, memberships, address);
  if (!opened.ok) {
    const declined = opened.error;
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
      default: {
        const again = [...lines, "Retry-After", String(ASK_AGAIN_SECONDS)];
        return refused(503, "nobody could be asked who signs in; try again", again);
      }
    }
  }
  const account = opened.value;
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

function told(answer: Answer): OwnAnswer {
  return { answer, outcome: "free", meter: null };
}

function refused(status: number, error: string, lines: readonly string[]): OwnAnswer {
  return { answer: errorAnswer(status, error, lines), outcome: "refused", meter: null };
}
