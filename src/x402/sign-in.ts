/**
 * The extension `sign-in-with-x` of version 2: a wallet signs a text of ours (EIP-4361, or Sign-In With Solana), and so
 * says who asks without paying. What a challenge says comes from the configuration alone, and its nonce is our own MAC
 * of its time, so that nothing is stored for who only asks: an answer is judged by rewriting the text that was to be
 * signed. Whose signature it is, and whether the nonce was used before, is found out elsewhere.
 */
import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { checksumAddress, isEvmAddress } from "./address.ts";
import { decodeBase64Json, encodeAscii } from "./header.ts";
import { findNetworkByCaip2, type Network, type NetworkName } from "./network.ts";
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import { isSolanaAddress } from "./solana-address.ts";
import { caip2Of } from "./version-2.ts";

/** Its name among the extensions. */
export const SIGN_IN = "sign-in-with-x";
/** The request header that carries a signed challenge. */
export const SIGN_IN_HEADER = "SIGN-IN-WITH-X";
/** Where a challenge is to be had that is for every URL: who speaks version 1 is told none with a price. */
export const SIGN_IN_PATH = "/.well-known/x402/sign-in";
/** How long a challenge may be answered, milliseconds. */
const SIGN_IN_MS = 300_000;
/** What a wallet shows its owner. */
const STATEMENT = "Sign in to get what you have paid for. It costs nothing.";
const VERSION = "1";
/** Hex digits of either half of a nonce: what it is, and the proof of that. */
const NONCE_HALF = 16;
/** Of the first half, those that are the same in a series, and behind them those that number it there. */
const RANDOM = 14;
/** Nonces of one series: one MAC has a proof for each, since each price is asked for with a nonce. */
const SERIES = 64;
const PROOF_BYTES = 8;
/** Of a nonce and the quotation mark behind it, base64: three bytes are encoded together. */
const ENCODED_NONCE = 44;
/** Longest signature, characters: a smart wallet's may hold several. */
const MAX_SIGNATURE = 8_192;

/** What is signed, but for who signs it and on which chain. */
export interface ChallengeInfo {
  readonly domain: string;
  readonly uri: string;
  readonly statement: string;
  readonly version: string;
  /** 32 hex digits. */
  readonly nonce: string;
  /** ISO 8601, as {@link ChallengeInfo.expirationTime}. */
  readonly issuedAt: string;
  readonly expirationTime: string;
}

interface SupportedChain {
  /** CAIP-2. */
  readonly chainId: string;
  readonly type: "eip191" | "ed25519";
}

/** What a quote says of it; its JSON Schema, which is the same everywhere, is left out. */
export interface SignInChallenge {
  readonly info: ChallengeInfo;
  readonly supportedChains: readonly SupportedChain[];
}

/** An answer as it was told: nothing of it is believed. */
const answer = z.object({
  domain: z.string().max(512),
  address: z.string().max(64),
  uri: z.string().max(16_384),
  chainId: z.string().max(64),
  nonce: z.string().max(64),
  issuedAt: z.string().max(64),
  signature: z.string().max(MAX_SIGNATURE),
});

export type SignInAnswer = z.infer<typeof answer>;

/** A fresh answer to a challenge of ours: whose signature it is has still to be found out. */
export interface SignIn {
  /** Who says that he has signed it. */
  readonly address: string;
  readonly network: NetworkName;
  /** The text that was to be signed. */
  readonly message: string;
  readonly signature: string;
  readonly nonce: string;
  /** When it is too old, milliseconds since the epoch. */
  readonly untilMs: number;
}

/** Reads the value of {@link SIGN_IN_HEADER}. */
export function decodeSignIn(value: string): Result<SignInAnswer, Refusal> {
  const json = decodeBase64Json(value, SIGN_IN_HEADER);
  if (!json.ok) return json;
  const read = answer.safeParse(json.value);
  if (read.success) return ok(read.data);
  const place = read.error.issues[0]?.path.join(".") ?? "";
  return refuse("invalid_payload", `${SIGN_IN_HEADER} has no ${place} that can be read`);
}

/** What a wallet signs, and what is sent with its signature. */
interface PreparedSignIn {
  readonly answer: Omit<SignInAnswer, "signature"> & ChallengeInfo & SupportedChain;
  readonly message: string;
  /** The same as wallets of EVM networks are given it. */
  readonly hex: string;
}

export interface SignInOptions {
  /** Of all processes that sell by the same ledger: each takes what the others have asked for. */
  readonly key: Uint8Array;
  readonly publicUrl: string;
}

/** All challenges of one second have the same times. */
interface Moment {
  /** Since the epoch. */
  readonly second: number;
  readonly issuedAt: string;
  readonly expirationTime: string;
}

/** Nonces of one second. */
interface Series {
  readonly second: number;
  /** Each as {@link SignIns.nextNonce} tells it, one behind the other. */
  readonly encoded: string;
  given: number;
}

/** Asks who a client is, and reads what it answers; for one public URL. */
export class SignIns {
  readonly #key: Uint8Array;
  readonly #domain: string;
  readonly #publicUrl: string;
  #moment: Moment = { second: Number.NEGATIVE_INFINITY, issuedAt: "", expirationTime: "" };
  #series: Series = { second: 0, encoded: "", given: SERIES };

  constructor({ key, publicUrl }: SignInOptions) {
    this.#key = key;
    this.#domain = new URL(publicUrl).host;
    this.#publicUrl = publicUrl;
  }

  /**
   * Its times are whole seconds; no two have the same nonce.
   * @param resource the URL that is asked for, of which the query is left out; default: all of them
   */
  challenge(nowMs: number, resource = this.#publicUrl): ChallengeInfo {
    const { issuedAt, encoded } = this.nextNonce(nowMs);
    const nonce = atob(encoded).slice(0, 2 * NONCE_HALF);
    const { expirationTime } = this.#momentOf(nowMs);
    return this.#infoOf(uriOf(resource), { nonce, issuedAt, expirationTime });
  }

  /**
   * Makes another challenge of any of the same second: when that was issued, and what its nonce and the quotation mark
   * behind it are in base64, to be put in place of the other's. A price is asked for so with no more work than it takes
   * to copy it.
   */
  nextNonce(nowMs: number): { readonly issuedAt: string; readonly encoded: string } {
    const { second, issuedAt } = this.#momentOf(nowMs);
    if (this.#series.second !== second || this.#series.given === SERIES) {
      this.#series = { second, encoded: this.#encodedSeries(issuedAt), given: 0 };
    }
    const at = this.#series.given * ENCODED_NONCE;
    this.#series.given += 1;
    return { issuedAt, encoded: this.#series.encoded.slice(at, at + ENCODED_NONCE) };
  }

  /**
   * The refusals are those that official sellers know by a code.
   * @param networks on which it may have been signed, by their names of version 1
   */
  judge(
    told: SignInAnswer,
    { resource, networks }: { readonly resource: string; readonly networks: readonly string[] },
    nowMs: number,
  ): Result<SignIn, Refusal> {
    const { domain, uri, nonce, issuedAt, chainId, address, signature } = told;
    if (domain !== this.#domain) {
      return refuseSignIn("domain_mismatch", `it is for another domain than ${this.#domain}`);
    }
    const uris = [uriOf(resource), uriOf(this.#publicUrl)];
    if (!uris.includes(uri))
      return refuseSignIn("uri_mismatch", `its uri is not ${uris.join(" or ")}`);
    if (!this.#isOurs(nonce, issuedAt)) {
      return refuseSignIn("nonce", "its nonce and its time are not as they were told here");
    }
    const issuedMs = Date.parse(issuedAt);
    const untilMs = issuedMs + SIGN_IN_MS;
    if (issuedMs > nowMs) return refuseSignIn("issued_at_in_future", "its time is still to come");
    if (nowMs >= untilMs) {
      return refuseSignIn(
        "expired",
        `its ${SIGN_IN_MS / 1000} s are over; ask for another challenge`,
      );
    }
    const signer = signerOf({ address, chainId }, networks);
    if (!signer.ok) return signer;
    const asked = { nonce, issuedAt, expirationTime: expirationOf(issuedAt) };
    const { network } = signer.value;
    const message = signInText(this.#infoOf(uri, asked), address, network);
    return ok({ address, network: network.name, message, signature, nonce, untilMs });
  }

  /**
   * The same as {@link SignIns.challenge} for all URLs, with the text for one wallet, whose program need not know how it
   * is written. The network may be named as in either version.
   */
  prepare(
    wallet: { readonly address: string; readonly network: string },
    networks: readonly string[],
    nowMs: number,
  ): Result<PreparedSignIn, Refusal> {
    const chainId = caip2Of(wallet.network);
    const signer = signerOf({ address: wallet.address, chainId }, networks);
    if (!signer.ok) return signer;
    const { network } = signer.value;
    const address = network.kind === "evm" ? checksumAddress(wallet.address) : wallet.address;
    const info = this.challenge(nowMs);
    const message = signInText(info, address, network);
    const { type } = supportedChain(network.name);
    const hex = `0x${Buffer.from(message, "utf8").toString("hex")}`;
    return ok({ answer: { ...info, address, chainId, type }, message, hex });
  }

  #infoOf(
    uri: string,
    { nonce, issuedAt, expirationTime }: Pick<ChallengeInfo, "nonce"> & Omit<Moment, "second">,
  ): ChallengeInfo {
    const about = { domain: this.#domain, uri, statement: STATEMENT, version: VERSION };
    return { ...about, nonce, issuedAt, expirationTime };
  }

  #momentOf(nowMs: number): Moment {
    const second = Math.floor(nowMs / 1000);
    if (this.#moment.second !== second) {
      const issuedAt = new Date(second * 1000).toISOString();
      this.#moment = { second, issuedAt, expirationTime: expirationOf(issuedAt) };
    }
    return this.#moment;
  }

  #encodedSeries(issuedAt: string): string {
    const random = randomUUID()
      .slice(-RANDOM - 1)
      .replace("-", "");
    const proofs = this.#proofsOf(random, issuedAt);
    let text = "";
    for (let number = 0; number < SERIES; number += 1) {
      text += `${random}${number.toString(16).padStart(2, "0")}${proofOf(proofs, number)}"`;
    }
    return encodeAscii(text);
  }

  #isOurs(nonce: string, issuedAt: string): boolean {
    // A second spelling of a nonce would be another one for who remembers those that are used.
    if (!/^[\da-f]{32}$/.test(nonce)) return false;
    const number = Number.parseInt(nonce.slice(RANDOM, NONCE_HALF), 16);
    if (number >= SERIES) return false;
    const proof = proofOf(this.#proofsOf(nonce.slice(0, RANDOM), issuedAt), number);
    return timingSafeEqual(Buffer.from(nonce.slice(NONCE_HALF)), Buffer.from(proof));
  }

  /**
   * Without the key nobody makes a nonce, or gives one another time. Hex, a proof for each of a series: what begins with
   * a key makes a MAC of SHAKE256, whose result may be of any length.
   */
  #proofsOf(random: string, issuedAt: string): string {
    return createHash("shake256", { outputLength: SERIES * PROOF_BYTES })
      .update(this.#key)
      .update(`coinslot sign-in ${random} ${issuedAt}`)
      .digest("hex");
  }
}

function proofOf(proofs: string, number: number): string {
  return proofs.slice(number * NONCE_HALF, (number + 1) * NONCE_HALF);
}

function expirationOf(issuedAt: string): string {
  return new Date(Date.parse(issuedAt) + SIGN_IN_MS).toISOString();
}

/** @param networks by their names of version 1 */
export function supportedChains(networks: readonly string[]): readonly SupportedChain[] {
  return [...new Set(networks)].map(supportedChain);
}

function supportedChain(network: string): SupportedChain {
  const chainId = caip2Of(network);
  return { chainId, type: chainId.startsWith("solana:") ? "ed25519" : "eip191" };
}

/** A query says what is wanted of a path; who asks for the path is asked for it alone. */
function uriOf(resource: string): string {
  return resource.split("?", 1)[0] ?? "";
}

function signerOf(
  { address, chainId }: Pick<SignInAnswer, "address" | "chainId">,
  networks: readonly string[],
): Result<{ readonly network: Network }, Refusal> {
  const network = findNetworkByCaip2(chainId);
  if (network === undefined || !networks.includes(network.name)) {
    return refuseSignIn("unsupported_chain", "nothing is sold here on the chain that it names");
  }
  const isAddress = network.kind === "evm" ? isEvmAddress : isSolanaAddress;
  return isAddress(address)
    ? ok({ network })
    : refuseSignIn("malformed_signature", "its address is none of that chain");
}

/** What is signed, as EIP-4361 has it, and Sign-In With Solana. */
export function signInText(
  { domain, uri, statement, version, nonce, issuedAt, expirationTime }: ChallengeInfo,
  address: string,
  { kind, caip2 }: Network,
): string {
  return [
    `${domain} wants you to sign in with your ${kind === "evm" ? "Ethereum" : "Solana"} account:`,
    address,
    "",
    statement,
    "",
    `URI: ${uri}`,
    `Version: ${version}`,
    `Chain ID: ${caip2.slice(caip2.indexOf(":") + 1)}`,
    `Nonce: ${nonce}`,
    `Issued At: ${issuedAt}`,
    `Expiration Time: ${expirationTime}`,
  ].join("\n");
}

/** @param code what is behind `invalid_siwx_` in the words of official sellers */
export function refuseSignIn(code: string, detail: string): ReturnType<typeof refuse> {
  const said = `the sign-in was not taken, and nothing was charged: ${detail}`;
  return refuse("invalid_payload", said, `invalid_siwx_${code}`);
}
