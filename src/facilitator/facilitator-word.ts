/**
 * What a facilitator elsewhere tells of itself in `GET /supported`, beside what it takes: the accounts that it
 * settles from, whether its refusals are its last word, and where it takes no payments at the moment. Accounts are learned from its answers, too, since
 * many tell none. All of it is in memory: after a restart it is told again, and learned anew.
 */
import { findNetwork } from "../x402/network.ts";
import { nameOfCaip2 } from "../x402/version-2.ts";

/** Accounts that one facilitator may tell, and that are learned of it for one network, at most. */
export const MAX_TOLD = 512;
export const MAX_LEARNED = 64;
/** Its latest transactions on one network whose sender was not read yet, at most. */
export const MAX_UNREAD = 8;
/** Longest pattern and address that are looked at, characters. */
const MAX_LENGTH = 128;

interface Told {
  /** `eip155:84532`, `eip155:*`, `eip155`, `*`, or a name of version 1. */
  readonly pattern: string;
  readonly address: string;
}

export class FacilitatorWord {
  #told: readonly Told[] = [];
  #final: ReadonlySet<string> = new Set();
  #closed: ReadonlySet<string> = new Set();
  #heardMs: number | undefined;
  readonly #learned = new Map<string, Set<string>>();
  readonly #unread = new Map<string, Set<string>>();

  /** Milliseconds since the epoch of its last answer; undefined: it has not told anything yet. */
  get heardMs(): number | undefined {
    return this.#heardMs;
  }

  /** By pattern, as it tells them; for those who settle through us. */
  get signers(): Readonly<Record<string, readonly string[]>> {
    const patterns = new Set(this.#told.map(({ pattern }) => pattern));
    return Object.fromEntries(
      [...patterns].map((pattern) => [
        pattern,
        this.#told.filter((each) => each.pattern === pattern).map(({ address }) => address),
      ]),
    );
  }

  /** Takes in one whole answer. What has not the shape that is expected says nothing. */
  record(body: Readonly<Record<string, unknown>>, nowMs: number): void {
    this.#told = readSigners(body["signers"]).slice(0, MAX_TOLD);
    this.#final = readNetworks(body["finalRefusals"]);
    this.#closed = readNetworks(body["closed"]);
    this.#heardMs = nowMs;
  }

  /** It keeps one ledger, so that a refusal of the same request again means what it says. */
  isFinal(network: string): boolean {
    return this.#final.has(network);
  }

  /** It takes no payments there now. */
  isClosed(network: string): boolean {
    return this.#closed.has(network);
  }

  /** Whether it settles from that account, as far as it told or was seen to. */
  hasSigner(network: string, address: string): boolean {
    const wanted = comparable(network, address);
    if (this.#learned.get(network)?.has(wanted) === true) return true;
    return this.#told.some((each) => {
      return comparable(network, each.address) === wanted && isFor(each.pattern, network);
    });
  }

  /** It named a transaction of that account as its settlement of a payment of ours. */
  learn(network: string, address: string): void {
    add(this.#learned, network, comparable(network, address), MAX_LEARNED);
  }

  /** The same where nobody has read yet whose transaction it is. */
  remember(network: string, transaction: string): void {
    add(this.#unread, network, transaction, MAX_UNREAD);
  }

  /** Those transactions, to be read now, the latest first; they are not told again. */
  takeUnread(network: string): readonly string[] {
    const unread = [...(this.#unread.get(network) ?? [])].toReversed();
    this.#unread.delete(network);
    return unread;
  }
}

/** A map of patterns to addresses, or addresses for every network. */
function readSigners(value: unknown): readonly Told[] {
  if (Array.isArray(value))
    return value.filter(isWord).map((address) => ({ pattern: "*", address }));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([pattern, addresses]: [string, unknown]) => {
    const list: readonly unknown[] = Array.isArray(addresses) ? addresses : [addresses];
    return list.filter(isWord).map((address) => ({ pattern, address }));
  });
}

function readNetworks(value: unknown): ReadonlySet<string> {
  const words = Array.isArray(value) ? value.filter(isWord).slice(0, MAX_TOLD) : [];
  return new Set(words.map(nameOfCaip2));
}

function isWord(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= MAX_LENGTH;
}

function isFor(pattern: string, network: string): boolean {
  if (pattern === "*" || pattern === network) return true;
  const { caip2 = "" } = findNetwork(network) ?? {};
  const [namespace = ""] = caip2.split(":", 1);
  return pattern === caip2 || pattern === namespace || pattern === `${namespace}:*`;
}

/** EVM addresses are one whatever their letter case. */
function comparable(network: string, address: string): string {
  return findNetwork(network)?.kind === "evm" ? address.toLowerCase() : address;
}

/** The oldest goes first where there are too many. */
function add(map: Map<string, Set<string>>, network: string, value: string, most: number): void {
  const all = map.get(network) ?? new Set();
  map.set(network, all);
  all.delete(value);
  all.add(value);
  const [oldest = value] = all;
  if (all.size > most) all.delete(oldest);
}
