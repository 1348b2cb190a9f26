/**
 * Signs in at a seller: says who asks, by a text of ours that names the seller, and moves no money. What a seller wants
 * signed is never signed as it stands: one that is for another place could be shown there by whoever has asked for it.
 */
import { encodeHeaderJson } from "../x402/header.ts";
import { isRecord } from "../x402/json.ts";
import { findNetworkByCaip2, type Network } from "../x402/network.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { SIGN_IN_HEADER, SIGN_IN_PATH, signInText, type ChallengeInfo } from "../x402/sign-in.ts";
import type { BuyerKey } from "./buyer-key.ts";
import { exchange, readBody, type BuyerAnswer, type BuyerRequest } from "./exchange.ts";
import { parseJson } from "./offer.ts";

/** What is read of an answer about who asks, bytes. */
const MAX_TOLD_BYTES = 64 * 1024;
/** Longest line of a challenge, characters, and what may stand in one: a text has no other lines than it seems to. */
const MAX_LINE = 512;
const LINE = /^[\x20-\x7e]*$/;
/** Most chains of a challenge that are looked at. */
const MAX_CHAINS = 64;
/** Longest token of a session, characters. */
const MAX_TOKEN = 1_024;

export interface AskedToProve {
  /** Any URL of the seller. */
  readonly url: URL;
  readonly purse: BuyerKey;
  /** Only on these; empty: on the seller's first one that the key is for. */
  readonly networks: readonly string[];
  /** Longest silence of the server, milliseconds. */
  readonly silenceMs: number;
  readonly signal: AbortSignal;
}

/**
 * The value of {@link SIGN_IN_HEADER}, good for minutes and for one request; or a sentence on why there is none.
 * @throws {NoAnswer}
 */
export async function signIn(signing: AskedToProve): Promise<Result<string, string>> {
  const { url, purse } = signing;
  const asked = await ask(signing, { method: "GET", path: SIGN_IN_PATH, headers: [] });
  if (!asked.ok) return asked;
  const { answer, said } = asked.value;
  if (answer.status !== 200) return err(`${url.host} asks nobody to sign in (${answer.status})`);
  const info = readInfo(said);
  if (info === undefined) return err(`${url.host} asks to sign in in a way that cannot be read`);
  const isHere = URL.canParse(info.uri) && new URL(info.uri).origin === url.origin;
  if (info.domain !== url.host || !isHere) {
    return err(`${url.host} asks to sign in at ${info.domain}: ask there, if you trust it`);
  }
  const network = networkFor(said, signing);
  if (network === undefined)
    return err(`${url.host} knows no accounts on a network that this key is for`);
  const { address } = purse;
  const text = signInText(info, address, network);
  const chain = { chainId: network.caip2, type: purse.kind === "evm" ? "eip191" : "ed25519" };
  const signature = await signText(purse, text);
  return ok(encodeHeaderJson({ ...info, ...chain, address, signature }));
}

/**
 * A session for a while, to be shown as `X-402-Session` at that seller alone; or a sentence.
 * @throws {NoAnswer}
 */
export async function openSession(signing: AskedToProve): Promise<Result<string, string>> {
  const signed = await signIn(signing);
  if (!signed.ok) return signed;
  const headers = [[SIGN_IN_HEADER, signed.value]] as const;
  const asked = await ask(signing, { method: "POST", path: SIGN_IN_PATH, headers });
  if (!asked.ok) return asked;
  const { answer, said } = asked.value;
  const { session } = Object(said);
  const isToken = typeof session === "string" && session.length <= MAX_TOKEN && LINE.test(session);
  return answer.status === 200 && isToken ? ok(session) : err(refusalOf(answer, said));
}

interface Asked {
  readonly answer: BuyerAnswer;
  /** Its body as JSON; undefined where it is none. */
  readonly said: unknown;
}

/** One request to the seller, whose answer is small. @throws {NoAnswer} */
export async function ask(
  { url, silenceMs, signal }: Pick<AskedToProve, "url" | "silenceMs" | "signal">,
  {
    method,
    path,
    headers,
  }: { readonly method: string; readonly path: string; readonly headers: BuyerRequest["headers"] },
): Promise<Result<Asked, string>> {
  const request = { url: new URL(path, url.origin), method, headers, body: null };
  const answer = await exchange(request, { silenceMs, signal });
  const body = await readBody(answer, MAX_TOLD_BYTES);
  if (body === undefined) return err(`${url.host} says more than anybody reads`);
  return ok({ answer, said: parseJson(body) });
}

/** What the seller says of it, else its status. */
export function refusalOf({ status }: Pick<BuyerAnswer, "status">, said: unknown): string {
  const { error } = Object(said);
  return typeof error === "string" ? error : `the answer is ${status}`;
}

function readInfo(said: unknown): ChallengeInfo | undefined {
  const { info } = Object(said);
  if (!isRecord(info)) return undefined;
  const line = (name: keyof ChallengeInfo): string => {
    const value = info[name];
    const isLine = typeof value === "string" && value.length <= MAX_LINE && LINE.test(value);
    if (!isLine) unreadable = true;
    return isLine ? value : "";
  };
  let unreadable = false;
  const read: ChallengeInfo = {
    domain: line("domain"),
    uri: line("uri"),
    statement: line("statement"),
    version: line("version"),
    nonce: line("nonce"),
    issuedAt: line("issuedAt"),
    expirationTime: line("expirationTime"),
  };
  return unreadable ? undefined : read;
}

/** The seller's first one that the key is for, among those that are wanted. */
function networkFor(
  said: unknown,
  { purse, networks }: Pick<AskedToProve, "purse" | "networks">,
): Network | undefined {
  const { supportedChains } = Object(said);
  const chains: readonly unknown[] = Array.isArray(supportedChains) ? supportedChains : [];
  const known = chains
    .slice(0, MAX_CHAINS)
    .map((chain) => findNetworkByCaip2(String(Object(chain).chainId)));
  return known.find((network) => {
    if (network === undefined || network.kind !== purse.kind) return false;
    return networks.length === 0 || networks.includes(network.name);
  });
}

async function signText(purse: BuyerKey, text: string): Promise<string> {
  if (purse.kind === "evm") return purse.account.signMessage({ message: text });
  const { encodeBase58 } = await import("../x402/solana-address.ts");
  return encodeBase58(purse.keypair.sign(Buffer.from(text, "utf8")));
}
