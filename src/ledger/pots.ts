/**
 * Pots: counted amounts that processes spend in memory. A life takes a lease on part of a pot, which is durable before it
 * is used, debits requests from it without a write for each, and says a moment later what was used. What a dead life had
 * leased is in the pot again, but for what it had written: it loses nobody but the seller.
 *
 * What buyers have prepaid is in pots named by {@link creditsPot}; of those every movement is an entry of the books, too:
 * what came in is what was used, what is free, and what is leased.
 */
import { isEvmAddress } from "../x402/address.ts";
import {
  NETWORK_NAMES,
  networkOf,
  type Asset,
  type Network,
  type NetworkName,
} from "../x402/network.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import { LedgerConflict, LedgerUnavailable } from "./ledger-fault.ts";

/** Pots that one question is about at most. */
export const MAX_DRAWS = 256;
/** So long after somebody found a pot leased to others those keep no more of it than they need, milliseconds. */
const WANTED_MS = 2_000;
/** So long the last turn of a lease that was given back is known, milliseconds: longer than any statement is under way. */
export const TURNS_KEPT_MS = 3_600_000;
/** Pots, and leases, that one step tidies away at most. */
export const TIDIED_POTS = 1_000;

const CREDITS = "credits/";
const QUOTA = "quota/";
/** Behind the names of all pots of credits, and before those of others. */
export const CREDITS_END = "credits0";

/** What a payment puts into a pot when it is paid, or a quota when it is first asked for. */
export interface PotFill {
  readonly pot: string;
  /** More than 0. */
  readonly amount: bigint;
  /** When what is left is nobody's any more, milliseconds since the epoch; default: never. */
  readonly untilMs?: number | null;
}

/** What answered requests of one route have used. */
export interface PotUse {
  /** Key of the route, for the books. */
  readonly route: string;
  readonly amount: bigint;
  /** Requests, at least one. */
  readonly count: number;
}

/** Uses that are written together, and once: under its turn, whichever question brings it. */
export interface PotChunk {
  readonly turn: number;
  readonly uses: readonly PotUse[];
}

/** What a life says of its lease on a pot, and asks of it. */
export interface PotDraw {
  readonly pot: string;
  /** Greater with each question of this life about this pot: an older one that comes late changes nothing. */
  readonly turn: number;
  /** In the order of their turns, at most this one's; those that were written before are passed over. */
  readonly chunks: readonly PotChunk[];
  /** Whether this life has the lease as far as it knows; where it has not any more, it is told. */
  readonly isHeld: boolean;
  /** What stays in the lease in any case: for requests under way. */
  readonly base: bigint;
  /** What the first request in the queue needs beside it, all or nothing; 0n: none waits. */
  readonly first: bigint;
  /** As much of the lease as would be welcome, the rest goes back. 0n with no base and no request: the lease ends. */
  readonly wish: bigint;
  /** Makes the pot where there is none. */
  readonly opens?: Omit<PotFill, "pot"> | undefined;
}

export interface PotDrawn {
  readonly pot: string;
  /** In this life's lease from here on. */
  readonly held: bigint;
  /** All that is in the pot, leased or not. */
  readonly whole: bigint;
  /** Another life needs what is leased: nothing is to be kept that is not needed. */
  readonly isWanted: boolean;
  /** The lease was taken from this life, which was taken for dead: the chunks of this question are lost. */
  readonly isOver: boolean;
}

/** What is in a pot. */
export interface PotBalance {
  readonly free: bigint;
  readonly leased: bigint;
  readonly untilMs: number | null;
}

/** The view of one life, the process' own or a worker's. */
export interface Pots {
  /**
   * Writes what was used, takes leases and gives them back: each for itself, all durable when it resolves. At most
   * {@link MAX_DRAWS}, each of another pot. After {@link LedgerUnavailable} it is not known whether any of it was done; the
   * same chunks in a question of a later turn are written once.
   */
  draw(draws: readonly PotDraw[]): Promise<readonly PotDrawn[]>;
  /** Without what lives have debited and not written yet. Pots that are left out do not exist. */
  balances(pots: readonly string[]): Promise<ReadonlyMap<string, PotBalance>>;
}

/** Networks on which an address is the same payer's, and a token worth the same: a test network's token buys no goods of another's. */
function familyOf({ kind, testnet }: Pick<Network, "kind" | "testnet">): string {
  return testnet ? `${kind}-testnet` : kind;
}

/**
 * The pot of what a payer has prepaid with the token of a network: on all networks of its family.
 * @param codeOn the network on which the payer's code has signed, where no key has: the code at the same address may be
 *   somebody else's on any other, so that what it has paid for is its own there alone
 */
export function creditsPot(
  network: Pick<Network, "kind" | "testnet"> & { readonly asset: { readonly symbol: string } },
  payer: string,
  codeOn?: NetworkName,
): string {
  const name = isEvmAddress(payer) ? payer.toLowerCase() : payer;
  const pot = `${CREDITS}${familyOf(network)}/${network.asset.symbol}/${name}`;
  return codeOn === undefined ? pot : `${pot}@${codeOn}`;
}

/** The token of a family that credits are counted in, undefined where there is none of that symbol. */
export function creditsToken(family: string, symbol: string): Asset | undefined {
  const all = NETWORK_NAMES.map((name) => networkOf(name));
  const known = all.find((each) => familyOf(each) === family && each.asset.symbol === symbol);
  return known?.asset;
}

/** All pots of what a payer may have prepaid. */
export function creditsPotsOf(payer: string): readonly string[] {
  const all = NETWORK_NAMES.flatMap((name) => {
    const network = networkOf(name);
    return [creditsPot(network, payer), creditsPot(network, payer, name)];
  });
  return [...new Set(all)];
}

/** An account that is known to ask, as by a session. */
interface KnownAccount {
  readonly address: string;
  readonly network: NetworkName;
  /** By a key, which is the same account on all chains of its kind; false: by code, on its own chain alone. */
  readonly hasKey: boolean;
}

/** In what a balance is counted. */
interface CreditsUnit {
  /** Of networks: `evm`, `evm-testnet`, and the same of Solana. */
  readonly family: string;
  /** Symbol. */
  readonly token: string;
  readonly decimals: number;
}

/** Those of them that an account may spend, and what is counted in each. */
export function spendablePots({
  address,
  network: own,
  hasKey,
}: KnownAccount): ReadonlyMap<string, CreditsUnit> {
  const { kind } = networkOf(own);
  const networks = hasKey ? NETWORK_NAMES.map((name) => networkOf(name)) : [networkOf(own)];
  const spendable = networks.filter((network) => network.kind === kind);
  return new Map(
    spendable.map((network) => {
      const { symbol: token, decimals } = network.asset;
      const unit = { family: familyOf(network), token, decimals };
      return [creditsPot(network, address, hasKey ? undefined : own), unit] as const;
    }),
  );
}

/** What was debited from it and not written, and then lost, is the seller's money. */
export function isCredits(pot: string): boolean {
  return pot.startsWith(CREDITS);
}

/** Undefined of a pot that is not of credits. */
export function unitOfPot(
  pot: string,
): { readonly family: string; readonly token: string } | undefined {
  if (!isCredits(pot)) return undefined;
  const [, family = "", token = ""] = pot.split("/", 3);
  return { family, token };
}

/** The pot of the requests that one purchase is good for; it is opened when the first of them comes. */
export function usesPot(key: PaymentKey): string {
  return `uses/${key}`;
}

/** Whose a quota is: of an account by its key on all chains of its kind, by code on its own. */
export function quotaOwner({ address, network, hasKey }: KnownAccount): string {
  const name = isEvmAddress(address) ? address.toLowerCase() : address;
  return `${hasKey ? networkOf(network).kind : network}:${name}`;
}

/**
 * The pot of what somebody has of a route before its price begins, in the window that ends then.
 * @param who within `by`: an account ({@link quotaOwner}), or where he comes from
 */
export function quotaPot(route: string, by: string, who: string, untilMs: number): string {
  return `${QUOTA}${by}/${who}/${untilMs}/${route}`;
}

/** Whoever asks has opened it, and has paid nothing for that. */
export function isQuota(pot: string): boolean {
  return pot.startsWith(QUOTA);
}

/** Between which names all quotas of a payer are: behind the first, before the second. */
export function quotasOf(payer: string): readonly (readonly [from: string, to: string])[] {
  const owners = NETWORK_NAMES.flatMap((network) =>
    [true, false].map((hasKey) => quotaOwner({ address: payer, network, hasKey })),
  );
  // "0" is the character behind "/".
  return [...new Set(owners)].map((who) => [`${QUOTA}payer/${who}/`, `${QUOTA}payer/${who}0`]);
}

/** A pot as it is stored. */
export interface PotRow extends PotBalance {
  /** The life that has found too little free last, and when. */
  readonly wantedBy: string | null;
  readonly wantedMs: number;
}

/** A lease as it is stored. One that was given back stays for its turn. */
export interface PotLease {
  readonly held: bigint;
  readonly turn: number;
}

export interface JudgedDraw {
  readonly drawn: PotDrawn;
  /** To be written, where they differ; a lease that is null is deleted. */
  readonly pot?: PotRow;
  readonly lease?: PotLease | null;
  /** Written for the first time. */
  readonly uses: readonly PotUse[];
}

/** Who asks, and when. */
export interface DrawMoment {
  readonly life: string;
  readonly nowMs: number;
  /** By one clock for all lives: what one has noted, others hold against it. Default: as {@link DrawMoment.nowMs}. */
  readonly sharedMs?: number;
}

/**
 * What a question makes of a pot and of the asker's lease: the one place that moves money between them, for every store.
 * Pure. Stores read both, and write what it says, in one transaction.
 */
export function judgeDraw(
  stored: PotRow | undefined,
  lease: PotLease | undefined,
  draw: PotDraw,
  { life, nowMs, sharedMs = nowMs }: DrawMoment,
): JudgedDraw {
  const { pot: name, opens } = draw;
  const pot = stored ?? (opens === undefined ? undefined : openedPot(opens));
  if (lease !== undefined && draw.turn <= lease.turn) {
    const drawn = drawnOf(name, lease.held, pot, isWantedBy(pot, life, sharedMs));
    return { drawn, ...NOTHING_WRITTEN };
  }
  const written = draw.chunks.filter(({ turn }) => turn > (lease?.turn ?? 0));
  const uses = written.flatMap((chunk) => chunk.uses);
  const used = sumOf(uses);
  const isOver = (draw.isHeld && lease === undefined) || used > (lease?.held ?? 0n);
  if (isOver || pot === undefined) {
    const drawn = { pot: name, held: 0n, whole: wholeOf(pot), isWanted: false, isOver };
    return { ...backTo(pot, lease), drawn, ...NOTHING_WRITTEN };
  }
  const held = (lease?.held ?? 0n) - used;
  const isWanted = isWantedBy(pot, life, sharedMs);
  const next = keptOf(pot, held, draw, { isWanted, nowMs });
  const leased = pot.leased - used - held + next;
  const isShort = next < draw.base + draw.first;
  const wanted =
    isShort && leased > next
      ? { wantedBy: life, wantedMs: sharedMs }
      : { wantedBy: pot.wantedBy === life ? null : pot.wantedBy, wantedMs: pot.wantedMs };
  const row = { ...pot, ...wanted, free: pot.free + held - next, leased };
  return {
    drawn: drawnOf(name, next, row, isWanted),
    pot: row,
    lease: { held: next, turn: draw.turn },
    uses,
  };
}

const NOTHING_WRITTEN = { uses: [] } as const;

function sumOf(uses: readonly PotUse[]): bigint {
  return uses.reduce((sum, { amount }) => sum + amount, 0n);
}

/** As much as stays in a lease that has so much now. */
function keptOf(
  { free, untilMs }: PotRow,
  held: bigint,
  { base, first, wish }: PotDraw,
  { isWanted, nowMs }: { readonly isWanted: boolean; readonly nowMs: number },
): bigint {
  const least = base + first;
  const isEnded = untilMs !== null && untilMs <= nowMs;
  // All or nothing: two lives with half of it each would wait for each other.
  if (isEnded || held + free < least) return min(held, base);
  if (isWanted) return least;
  // Others lease side by side: half of what is free is left to them.
  return max(least, min(wish, held + (free + 1n) / 2n));
}

/** Where a lease is not what its life takes it for, all of it goes back. */
function backTo(
  pot: PotRow | undefined,
  lease: PotLease | undefined,
): Pick<JudgedDraw, "pot" | "lease"> {
  if (pot === undefined || lease === undefined) return {};
  return { pot: returned(pot, lease.held), lease: null };
}

/** A pot with so much of its leases in it again. */
export function returned<Pot extends PotBalance>(pot: Pot, held: bigint): Pot {
  return { ...pot, free: pot.free + held, leased: pot.leased - held };
}

/** What a refund takes out of the pot that a payment has filled, or puts back. */
export interface Pour {
  /** More than 0. */
  readonly amount: bigint;
  /** `none`: it was taken before, and only the books change. */
  readonly way: "out" | "back" | "none";
  /** It is paid back by other means, and has no transfer that says so in the books. */
  readonly isByHand?: boolean;
}

/** A pot from which a refund has taken so much, or into which it is put back. Throws {@link LedgerConflict} for too much. */
export function poured(pot: PotRow | undefined, { amount, way }: Pour): PotRow {
  const { free, ...rest } = pot ?? openedPot({ amount: 0n });
  const next = way === "back" ? free + amount : way === "out" ? free - amount : free;
  if (next < 0n) throw new LedgerConflict("that much is not free in the pot");
  return { ...rest, free: next };
}

export function openedPot({ amount, untilMs = null }: Omit<PotFill, "pot">): PotRow {
  return { free: amount, leased: 0n, untilMs, wantedBy: null, wantedMs: 0 };
}

function isWantedBy(pot: PotRow | undefined, life: string, sharedMs: number): boolean {
  if (pot === undefined || pot.wantedBy === null || pot.wantedBy === life) return false;
  return pot.wantedMs > sharedMs - WANTED_MS;
}

function drawnOf(pot: string, held: bigint, row: PotRow | undefined, isWanted: boolean): PotDrawn {
  return { pot, held, whole: wholeOf(row), isWanted, isOver: false };
}

function wholeOf(pot: PotRow | undefined): bigint {
  return pot === undefined ? 0n : pot.free + pot.leased;
}

/** Throws {@link TypeError} for a question that no life of ours asks. */
export function requireDraws(draws: readonly PotDraw[]): void {
  const names = new Set(draws.map(({ pot }) => pot));
  if (names.size < draws.length || draws.length > MAX_DRAWS)
    throw new TypeError("too many pots in one question, or one of them twice");
  for (const { base, first, wish, chunks } of draws) {
    const amounts = chunks.flatMap(({ uses }) => uses.map(({ amount }) => amount));
    if ([base, first, wish, ...amounts].some((amount) => amount < 0n))
      throw new TypeError("nothing of a pot is less than nothing");
  }
}

/** As it is stored with a payment. Throws {@link TypeError} for nothing: it could not be read when it is paid. */
export function storedFill({ pot, amount, untilMs = null }: PotFill): string {
  if (amount <= 0n) throw new TypeError("a payment fills a pot with something");
  return JSON.stringify({ pot, amount: String(amount), untilMs });
}

/** Throws {@link LedgerUnavailable} for a text that is none. */
export function readFill(text: string): PotFill {
  const { pot, amount, untilMs } = Object(JSON.parse(text));
  if (typeof pot !== "string" || typeof amount !== "string" || !/^[1-9][0-9]*$/.test(amount))
    throw new LedgerUnavailable("a stored payment says not readably what it fills");
  return { pot, amount: BigInt(amount), untilMs: typeof untilMs === "number" ? untilMs : null };
}

/** Reads a pot as a database driver returns it, whose columns bear the names of {@link PotRow}. */
export function readPot(columns: Readonly<Record<string, unknown>>): PotRow {
  const { free, leased, untilMs, wantedBy, wantedMs } = columns;
  return {
    free: BigInt(String(free)),
    leased: BigInt(String(leased)),
    untilMs: typeof untilMs === "number" ? untilMs : null,
    wantedBy: typeof wantedBy === "string" ? wantedBy : null,
    wantedMs: Number(wantedMs),
  };
}

/** The same of a lease. */
export function readLease(columns: Readonly<Record<string, unknown>>): PotLease {
  return { held: BigInt(String(columns["held"])), turn: Number(columns["turn"]) };
}

function min(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

function max(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
