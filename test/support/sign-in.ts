/** Buyers who sign in: by the official clients, and by hand for what those would never send. */
import {
  createSIWxClientExtension,
  createSIWxPayload,
  encodeSIWxHeader,
  SIGN_IN_WITH_X,
  type SIWxExtensionInfo,
  type SIWxPayload,
  type SIWxSigner,
} from "@x402/extensions/sign-in-with-x";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { SIGN_IN_HEADER, SIGN_IN_PATH, type SignInChallenge } from "../../src/x402/sign-in.ts";
import { headerJson } from "./buyer.ts";
import { PUBLIC_URL } from "./gateway.ts";
import type { FreshAccount } from "./payer.ts";

/**
 * A `fetch` for which a gateway on a port of its own is where it says that it is: official clients sign for nobody
 * else.
 */
export function fetchAsPublic(url: string): typeof fetch {
  return async (input, init) => {
    const asked = new Request(input, init);
    const { pathname, search } = new URL(asked.url);
    const answer = await fetch(new Request(`${url}${pathname}${search}`, asked));
    Object.defineProperty(answer, "url", { value: asked.url });
    return answer;
  };
}

/** The official client with its extension: signs in where it is asked who it is, and pays where that is not enough. */
export function returningBuyer(url: string, { account }: Pick<FreshAccount, "account">) {
  const client = new x402Client();
  client.register("eip155:*", new ExactEvmScheme(account));
  client.registerExtension(createSIWxClientExtension({ signers: [account] }));
  const paying = wrapFetchWithPayment(fetchAsPublic(url), client);
  return (path: string, init?: RequestInit): Promise<Response> =>
    paying(`${PUBLIC_URL}${path}`, init);
}

/** What a 402 asks of who has paid before. */
export async function challengeOf(url: string, init: RequestInit = {}): Promise<SignInChallenge> {
  const answer = await fetch(url, init);
  await answer.body?.cancel();
  return headerJson(answer.headers, "PAYMENT-REQUIRED").extensions[SIGN_IN_WITH_X];
}

/** More may be signed than we ask for. */
interface AskedToSignIn extends Pick<SignInChallenge, "supportedChains"> {
  readonly info: SIWxExtensionInfo;
}

/**
 * Signs a challenge as the official client does.
 * @param change what of the answer is sent otherwise than it was signed
 */
export async function signChallenge(
  { info, supportedChains: [chain] }: AskedToSignIn,
  signer: SIWxSigner,
  change: (answer: SIWxPayload) => SIWxPayload = (same) => same,
): Promise<string> {
  if (chain === undefined) throw new Error("no chain to sign in on");
  const answer = await createSIWxPayload({ ...info, ...chain }, signer, info.uri);
  return encodeSIWxHeader(change(answer));
}

export interface SignedInAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** As version 2 tells it. */
  readonly said: { readonly error?: string; readonly receipt?: Readonly<Record<string, unknown>> };
}

export async function showSignIn(
  url: string,
  header: string,
  init: RequestInit = {},
): Promise<SignedInAnswer> {
  const answer = await fetch(url, {
    ...init,
    headers: { ...Object(init.headers), [SIGN_IN_HEADER]: header },
  });
  const { status, headers } = answer;
  const error = headerJson(headers, "PAYMENT-REQUIRED")?.error;
  const receipt = headerJson(headers, "PAYMENT-RESPONSE");
  return { status, headers, text: await answer.text(), said: { error, receipt } };
}

/** A session of that account's, as programs get it. */
export async function openSessionAt(
  url: string,
  { account }: Pick<FreshAccount, "account">,
): Promise<string> {
  const place = url + SIGN_IN_PATH;
  const header = await signChallenge(Object(await (await fetch(place)).json()), account);
  const answer = await fetch(place, { method: "POST", headers: { [SIGN_IN_HEADER]: header } });
  const { session, error } = Object(await answer.json());
  if (typeof session !== "string") throw new Error(`no session: ${error}`);
  return session;
}
