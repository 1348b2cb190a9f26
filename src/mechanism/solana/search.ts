/**
 * What became of a payment that somebody else settles. Its message is known, but not the fee payer's
 * signature, and so not the transaction's name: the claimed transaction is compared with it, or else what the
 * payer's token account took part in.
 *
 *     the claimed transaction, or one of the account's, has the very message ── as `confirmation.ts` judges it
 *     none ── its blockhash may be valid ─────────────────────────────────────── unknown
 *          └── expired ── all that the account did since then was compared ───── failed
 *                     └── not all of it ──────────────────────────────────────── unknown
 */
import { decodeBase58, encodeBase58 } from "../../x402/solana-address.ts";
import { messageHash, readSolanaTransaction } from "../../x402/solana-transaction.ts";
import { ChainError, type Confirmation } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { isRecord, RpcRefusal, type Rpc } from "../rpc.ts";
import type { Blockhashes, Validity } from "./blockhashes.ts";
import { EXPIRED, findTransfer, judgeDepth, judgeResult, type Commitment } from "./confirmation.ts";
import { LeastRecent } from "./least-recent.ts";
import type { SolanaAuthorization } from "./payment.ts";
import { isSlot, type Statuses } from "./statuses.ts";

/** Transactions of an account that are listed in one call, and calls at most. */
const PAGE = 200;
const MAX_PAGES = 5;
/** Transactions that are fetched for one answer at most, and at the same time; the others come next time. */
const MAX_FETCHES = 24;
const MAX_FETCHES_AT_ONCE = 4;
/** How long the last answer about a blockhash counts, milliseconds. */
const VALIDITY_MS = 2_000;
/**
 * A transaction cannot be in a block so many slots before its blockhash was still valid: that is for 150
 * blocks, and not every slot has one.
 */
const REACH_SLOTS = 600;
/** Transactions that are remembered by their message, and payments that were said to have failed. */
const MAX_REMEMBERED = 10_000;
/** The transaction is of a version that was not asked for (Agave, `rpc_custom_error.rs`). */
const OTHER_VERSION = -32_015;
const SIGNATURE_BYTES = 64;

export interface SearchOptions {
  readonly endpoints: RpcEndpoints;
  readonly statuses: Statuses;
  readonly blockhashes: Blockhashes;
  readonly commitment: Commitment;
}

/** A transaction on the chain, confirmed at least. */
interface Fetched {
  readonly transaction: string;
  readonly messageHash: string;
  readonly err: unknown;
}

/** One operation at one endpoint. */
interface Operation {
  readonly rpc: Rpc;
  readonly authorization: SolanaAuthorization;
  readonly signal: AbortSignal;
}

export class Search {
  readonly #options: SearchOptions;
  /** The message hash of transactions that were fetched; "" for what cannot be a payment. */
  readonly #messages = new LeastRecent<string>(MAX_REMEMBERED);
  /** By message hash: the host that said that the payment has failed. */
  readonly #doubted = new LeastRecent<string>(MAX_REMEMBERED);

  constructor(options: SearchOptions) {
    this.#options = options;
  }

  /** See `Observer.reconcile`. @throws {ChainError} when the chain cannot be asked */
  reconcile(
    authorization: SolanaAuthorization,
    claimed: string | undefined,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    // A node refuses to look for what is no signature.
    const isName = claimed !== undefined && decodeBase58(claimed, SIGNATURE_BYTES) !== undefined;
    const named = isName ? claimed : undefined;
    const avoid = this.#doubted.get(authorization.messageHash);
    return this.#options.endpoints.run(
      async (rpc) => {
        const said = await this.#ask({ rpc, authorization, signal }, named);
        // Somebody else is to find the same.
        if (said.kind === "failed") this.#doubted.set(authorization.messageHash, rpc.host);
        else this.#doubted.delete(authorization.messageHash);
        return said;
      },
      signal,
      avoid,
    );
  }

  async #ask(operation: Operation, claimed: string | undefined): Promise<Confirmation> {
    const { rpc, authorization, signal } = operation;
    if (claimed !== undefined) {
      const found = await this.#compare(operation, claimed);
      if (found !== undefined && found !== "missing") return this.#judge(operation, found);
    }
    const { blockhashes } = this.#options;
    const { blockhash } = authorization.message;
    const validity = await blockhashes.ask(rpc, blockhash, VALIDITY_MS, signal);
    const found = await this.#search(operation, validity);
    if (found === undefined) return validity.hasExpired ? EXPIRED : NOT_YET;
    return found === "incomplete" ? INCOMPLETE : this.#judge(operation, found);
  }

  /** The payment among the payer's transactions; undefined when it is certainly not there. */
  async #search(
    operation: Operation,
    validity: Validity,
  ): Promise<Fetched | "incomplete" | undefined> {
    const { names, isComplete } = await this.#list(operation, validity);
    const strangers = names.filter((name) => this.#isCandidate(operation, name));
    let isMissing = !isComplete || strangers.length > MAX_FETCHES;
    const queue = strangers.slice(0, MAX_FETCHES).values();
    let found: Fetched | undefined;
    const work = async (): Promise<void> => {
      for (const name of queue) {
        const compared = found === undefined ? await this.#compare(operation, name) : undefined;
        if (compared === "missing") isMissing = true;
        else if (compared !== undefined) found = compared;
      }
    };
    await Promise.all(Array.from({ length: MAX_FETCHES_AT_ONCE }, work));
    if (found !== undefined) return found;
    return isMissing ? "incomplete" : undefined;
  }

  /** Whether it may be the payment: what was fetched before is known. */
  #isCandidate({ authorization }: Operation, name: string): boolean {
    const known = this.#messages.get(memoryKey(authorization, name));
    return known === undefined || known === authorization.messageHash;
  }

  /** Newest first, as far back as the payment can be. */
  async #list(
    { rpc, authorization, signal }: Operation,
    { slot }: Validity,
  ): Promise<{ readonly names: readonly string[]; readonly isComplete: boolean }> {
    const account = accountOf(authorization);
    const validSlot = this.#options.blockhashes.validSlot(authorization.message.blockhash);
    const floor = validSlot === undefined ? 0 : validSlot - REACH_SLOTS;
    const names: string[] = [];
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const last = names.at(-1);
      const before = last === undefined ? {} : { before: last };
      const options = { limit: PAGE, commitment: "confirmed", minContextSlot: slot, ...before };
      const answer = await rpc.call("getSignaturesForAddress", [account, options], signal);
      const listed = readListed(answer, rpc);
      const within = listed.filter((each) => each.slot >= floor);
      names.push(...within.map(({ signature }) => signature));
      if (listed.length < PAGE || within.length < listed.length) return { names, isComplete: true };
    }
    return { names, isComplete: false };
  }

  /** Fetches a transaction; undefined for another one, `missing` where the node does not have it. */
  async #compare(operation: Operation, name: string): Promise<Fetched | "missing" | undefined> {
    if (!this.#isCandidate(operation, name)) return undefined;
    const fetched = await fetchTransaction(operation, name);
    if (fetched === "missing") return fetched;
    const { authorization } = operation;
    this.#messages.set(memoryKey(authorization, name), fetched?.messageHash ?? "");
    return fetched?.messageHash === authorization.messageHash ? fetched : undefined;
  }

  async #judge(
    { rpc, authorization, signal }: Operation,
    { transaction, err }: Fetched,
  ): Promise<Confirmation> {
    const { commitment, statuses } = this.#options;
    if (commitment === "finalized") {
      const { status } = await statuses.readAt(rpc, transaction, signal);
      const waiting = judgeDepth(status?.depth ?? "confirmed", commitment);
      if (waiting !== undefined) return waiting;
    }
    return judgeResult(transaction, err, authorization.message);
  }
}

const NOT_YET: Confirmation = {
  kind: "unknown",
  detail: "no transaction with the payment is on the chain yet",
};
const INCOMPLETE: Confirmation = {
  kind: "unknown",
  detail: "not all of the payer's transactions could be compared with the payment yet",
};

/** The token account that pays; the payer's own where that is in a lookup table. */
function accountOf({ judged, message, payer }: SolanaAuthorization): string {
  if (judged !== undefined) return judged.source;
  const index = findTransfer(message)?.accounts[0];
  return (index === undefined ? undefined : message.keys[index]) ?? payer;
}

/** The newest version that is asked for: a node may refuse one that it does not know. */
function newestVersion({ message }: SolanaAuthorization): 0 | 1 {
  return message.version === 1 ? 1 : 0;
}

/** What could not be read for one payment may be readable for another. */
function memoryKey(authorization: SolanaAuthorization, name: string): string {
  return `${newestVersion(authorization)} ${name}`;
}

interface Listed {
  readonly signature: string;
  readonly slot: number;
}

function readListed(answer: unknown, rpc: Rpc): readonly Listed[] {
  if (!Array.isArray(answer) || answer.length > PAGE)
    throw malformed("getSignaturesForAddress", rpc);
  return answer.map((each: unknown) => {
    if (isRecord(each) && typeof each["signature"] === "string" && isSlot(each["slot"])) {
      return { signature: each["signature"], slot: each["slot"] };
    }
    throw malformed("getSignaturesForAddress", rpc);
  });
}

/** Undefined for one that is not of the payment's kind, or cannot be read. */
async function fetchTransaction(
  { rpc, authorization, signal }: Operation,
  name: string,
): Promise<Fetched | "missing" | undefined> {
  const options = {
    encoding: "base64",
    commitment: "confirmed",
    maxSupportedTransactionVersion: newestVersion(authorization),
  };
  try {
    const answer = await rpc.call("getTransaction", [name, options], signal);
    return answer === null ? "missing" : readFetched(answer, rpc);
  } catch (error) {
    if (error instanceof RpcRefusal && error.rpcCode === OTHER_VERSION) return undefined;
    throw error;
  }
}

function readFetched(answer: unknown, rpc: Rpc): Fetched | undefined {
  const { transaction, meta } = isRecord(answer) ? answer : {};
  const [text, encoding]: unknown[] = Array.isArray(transaction) ? transaction : [];
  if (typeof text !== "string" || encoding !== "base64" || !isRecord(meta) || !("err" in meta)) {
    throw malformed("getTransaction", rpc);
  }
  const read = readSolanaTransaction(text);
  const first = read.ok ? read.value.signatures[0] : undefined;
  if (!read.ok || first === undefined) return undefined;
  const { err } = meta;
  return { transaction: encodeBase58(first), messageHash: messageHash(read.value), err };
}

function malformed(method: string, rpc: Rpc): ChainError {
  return new ChainError("CHAIN_ANSWER", `${method} at ${rpc.host}: an answer of the wrong shape`);
}
