/**
 * A session: who has signed in once is known for a while, by a token that he shows in place of a signature each time.
 * Nothing of it is stored: it says whose it is and until when, under a MAC that nobody makes without the ledger's
 * secret. It is good at one public URL, and shows nothing but who asks: it moves no tokens.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { decodeBase64Json, encodeHeaderJson } from "./header.ts";
import { findNetwork, networkOf, NETWORK_NAMES, type NetworkName } from "./network.ts";
import { ok, type Refusal, type Result } from "./result.ts";
import { refuseSignIn, type SignInOptions } from "./sign-in.ts";

/** The request header by which programs show it. */
export const SESSION_HEADER = "X-402-Session";
/** What browsers keep it as. Behind `https:` with the prefix that no other host, and no plain HTTP, can write. */
const COOKIE = "x402-session";
const SECURE_COOKIE = `__Host-${COOKIE}`;
/** The value of a cookie of ours within a `Cookie` line. */
const IN_COOKIES = new RegExp(`(?:^|; ?)(?:__Host-)?${COOKIE}=[^;]*`, "g");
/** Longest token, characters. */
const MAX_TOKEN = 512;
/** Tokens that are known to be ours without another look at their MAC; the one that was first read goes for a new one. */
const MAX_KNOWN = 1_000;
/** By so many characters of its MAC one is known again: as a key all of it costs more than all else. */
const KNOWN_BY = 16;

/** An account that was proven to be whoever asks. */
export interface ProvenAccount {
  /** EIP-55 checksummed, or base58. */
  readonly address: string;
  /** On which it has signed. */
  readonly network: NetworkName;
  /** By a key, which is the same account on all chains of its kind; false: by code, which is so on its own chain alone. */
  readonly hasKey: boolean;
}

export interface BuyerSession extends ProvenAccount {
  readonly kind: "session";
  /** Milliseconds since the epoch, as {@link BuyerSession.untilMs}. */
  readonly issuedMs: number;
  readonly untilMs: number;
}

/** What a token says: its numbers are seconds since the epoch. */
const said = z.tuple([z.enum(NETWORK_NAMES), z.string(), z.boolean(), z.int(), z.int()]);

export interface SessionOptions extends SignInOptions {
  /** How long one lasts, milliseconds. */
  readonly forMs: number;
  /** Those of before count no more, milliseconds since the epoch. */
  readonly notBeforeMs: number;
}

function endOf(token: string): string {
  return token.slice(-KNOWN_BY);
}

/** Gives sessions, and knows them again; for one public URL. */
export class Sessions {
  readonly #options: SessionOptions;
  readonly #key: Buffer;
  readonly #isSecure: boolean;
  /** What good ones say, by their ends: a request of each comes many times, and its MAC costs more than the rest. */
  readonly #known = new Map<string, { readonly token: string; readonly session: BuyerSession }>();

  constructor(options: SessionOptions) {
    const { key, publicUrl } = options;
    this.#options = options;
    this.#key = createHmac("sha256", key).update(`coinslot session ${publicUrl}`).digest();
    this.#isSecure = publicUrl.startsWith("https:");
  }

  /** The cookie by which browsers keep it. */
  get cookieName(): string {
    return this.#isSecure ? SECURE_COOKIE : COOKIE;
  }

  issue(
    { network, address, hasKey }: ProvenAccount,
    nowMs: number,
  ): { token: string; untilMs: number } {
    const issued = Math.floor(nowMs / 1000);
    const until = issued + Math.floor(this.#options.forMs / 1000);
    const told = encodeHeaderJson([network, address, hasKey, issued, until]);
    return { token: `${told}.${this.#macOf(told)}`, untilMs: until * 1000 };
  }

  /** The refusals say what to do: sign in again. */
  read(token: string, nowMs: number): Result<BuyerSession, Refusal> {
    const known = this.#known.get(endOf(token));
    if (known?.token === token && nowMs < known.session.untilMs) return ok(known.session);
    const read = this.#read(token, nowMs);
    if (read.ok) this.#know(token, read.value);
    return read;
  }

  #know(token: string, session: BuyerSession): void {
    const [first] = this.#known.size < MAX_KNOWN ? [] : this.#known.keys();
    if (first !== undefined) this.#known.delete(first);
    this.#known.set(endOf(token), { token, session });
  }

  #read(token: string, nowMs: number): Result<BuyerSession, Refusal> {
    const [told = "", mac = "", ...more] = token.length > MAX_TOKEN ? [] : token.split(".");
    if (more.length > 0 || !isSame(mac, this.#macOf(told))) {
      return refuseSignIn("signature", "this is no session of here; sign in");
    }
    const json = decodeBase64Json(told, SESSION_HEADER);
    if (!json.ok) return json;
    const read = said.safeParse(json.value);
    if (!read.success) return refuseSignIn("signature", "this is no session of here; sign in");
    const [network, address, hasKey, issued, until] = read.data;
    const [issuedMs, untilMs] = [issued * 1000, until * 1000];
    // One that was given for longer than they last by now is over by then as well.
    const endMs = Math.min(untilMs, issuedMs + this.#options.forMs);
    if (nowMs >= endMs || issuedMs < this.#options.notBeforeMs) {
      return refuseSignIn("expired", "the session is over; sign in again");
    }
    return ok({ kind: "session", network, address, hasKey, issuedMs, untilMs: endMs });
  }

  /** `Set-Cookie`: pages never see it, and it goes along only where its own site asks, or somebody follows a link. */
  cookie(token: string, seconds: number): string {
    const secure = this.#isSecure ? "; Secure" : "";
    return `${this.cookieName}=${token}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`;
  }

  /** The token that a browser has kept, of the value of `Cookie`; undefined: none, or more than one. */
  inCookies(value: string): string | undefined {
    const start = `${this.cookieName}=`;
    const own = value.split(/; ?/).filter((each) => each.startsWith(start));
    return own.length === 1 ? own[0]?.slice(start.length) : undefined;
  }

  #macOf(told: string): string {
    return createHmac("sha256", this.#key).update(told).digest("base64url");
  }
}

function isSame(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** A `Cookie` line without what is ours in it, for a backend, which could be that buyer with it; "": nothing is left. */
export function withoutSession(value: string): string {
  return value.includes(COOKIE) ? value.replace(IN_COOKIES, "").replace(/^; ?/, "") : value;
}

/** Whether two accounts are one: see {@link ProvenAccount.hasKey}. */
export function isAccountOn(network: string, { hasKey, network: own }: ProvenAccount): boolean {
  return hasKey ? networkOf(own).kind === findNetwork(network)?.kind : own === network;
}
