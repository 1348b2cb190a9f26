/** Who says who he is: by a sign-in, or by a session that he got for one. Nothing is believed here but our own MAC. */
import { systemTime } from "../time/time.ts";
import { refuse, type Refusal, type Result } from "../x402/result.ts";
import { SESSION_HEADER, type BuyerSession, type Sessions } from "../x402/session.ts";
import {
  decodeSignIn,
  SIGN_IN_HEADER,
  SIGN_IN_PATH,
  type SignIn,
  type SignIns,
} from "../x402/sign-in.ts";
import type { Offers } from "../payments/sale/offers.ts";
import type { MemberTerms } from "./membership.ts";
import type { InboundRequest } from "./message/inbound.ts";

const SIGN_IN_NAME = SIGN_IN_HEADER.toLowerCase();
const SESSION_NAME = SESSION_HEADER.toLowerCase();

/** Whom a gateway asks who he is, and on which networks he may have paid. */
export interface SignInTerms {
  readonly issuer: SignIns;
  /** Null: there are none, and whoever says who he is does so for one request. */
  readonly sessions: Sessions | null;
  /** Where sessions are asked for: absolute. */
  readonly url: string;
  /** All groups of members: those have sessions who have bought nothing. */
  readonly groups: readonly MemberTerms[];
  /** Somebody else is to be asked whether a member is denied. */
  readonly areScreened: boolean;
  /** All on which anything is sold. */
  readonly networks: readonly string[];
}

export interface ShownSignIn {
  /** A sign-in is still to be proven; a refusal where it cannot be. */
  readonly signIn: Result<SignIn | BuyerSession, Refusal>;
  /** The header by which it was shown. */
  readonly shownIn: string;
}

/** Read only where there is no payment: who shows one means that, and may have his earlier purchases by it. */
export function readSignIn(
  terms: SignInTerms,
  { headers }: InboundRequest,
  { resource, offers }: { readonly resource: string; readonly offers: Pick<Offers, "networks"> },
): ShownSignIn | null {
  const value = headers[SIGN_IN_NAME];
  if (typeof value === "string") {
    // Looked up here alone: most requests show nobody.
    const { networks } = offers;
    return { signIn: judge(terms, value, { resource, networks }), shownIn: SIGN_IN_HEADER };
  }
  const { sessions } = terms;
  if (sessions === null) return null;
  const shown = headers[SESSION_NAME];
  if (typeof shown === "string") {
    return { signIn: sessions.read(shown, systemTime.now()), shownIn: SESSION_HEADER };
  }
  const kept = headers.cookie === undefined ? undefined : sessions.inCookies(headers.cookie);
  if (kept === undefined) return null;
  const session = sessions.read(kept, systemTime.now());
  // A browser keeps what is over: whoever looks at the page is asked as anybody.
  return session.ok ? { signIn: session, shownIn: "Cookie" } : null;
}

/**
 * Whether whoever asks means to use up what he has. A browser sends a cookie along for whatever page asks, and for what it
 * fetches before anybody wants it.
 */
export function isMeant(shownBy: string, { headers }: Pick<InboundRequest, "headers">): boolean {
  if (shownBy !== "Cookie") return true;
  const site = headers["sec-fetch-site"];
  if (site !== "same-origin" && site !== "none") return false;
  return headers["sec-purpose"] === undefined && headers["purpose"] === undefined;
}

/** Beside a challenge to sign in for whatever is looked up of whoever has signed in. */
export function readAsker(terms: SignInTerms, request: InboundRequest): ShownSignIn | null {
  const { url: resource, networks } = terms;
  return readSignIn(terms, request, { resource, offers: { networks } });
}

function judge(
  { issuer }: SignInTerms,
  value: string,
  asked: { readonly resource: string; readonly networks: readonly string[] },
): Result<SignIn, Refusal> {
  const told = decodeSignIn(value);
  return told.ok ? issuer.judge(told.value, asked, systemTime.now()) : told;
}

/** What is asked of the place of sign-ins beside a challenge: a session, or, null, that a browser forgets its own. */
export interface SessionRequest {
  readonly signIn: Result<SignIn, Refusal> | null;
  readonly sessions: Sessions;
}

/** Null: neither is. */
export function readSessionRequest(
  terms: SignInTerms,
  { method, headers }: InboundRequest,
  path: string,
): SessionRequest | null {
  const { sessions } = terms;
  if (path !== SIGN_IN_PATH || sessions === null) return null;
  if (method === "DELETE") return { signIn: null, sessions };
  if (method !== "POST") return null;
  const value = headers[SIGN_IN_NAME];
  if (typeof value !== "string") {
    return { signIn: refuse("invalid_payload", `${SIGN_IN_HEADER} header is required`), sessions };
  }
  const { url, networks } = terms;
  return { signIn: judge(terms, value, { resource: url, networks }), sessions };
}
