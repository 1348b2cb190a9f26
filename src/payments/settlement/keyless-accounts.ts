/**
 * Accounts that signed and whose keys are not in this configuration: rotated away, another replica's that is
 * gone, or of a network that is settled elsewhere by now. What they left unfinished is found at the start and
 * then round by round, named once, and watched as long as nobody with the key does.
 */
import type { WatchSurroundings } from "./surroundings.ts";
import { accountName } from "../../ledger/submission-row.ts";
import type { Follower } from "../../mechanism/mechanism.ts";
import { KeylessAccount } from "./keyless-account.ts";
import type { SettlementEngine } from "./settlement-engine.ts";
import { PUT_BACK } from "./submission-watch.ts";
import type { UnattendedAccount, LeftAccount } from "../../ledger/unattended.ts";

/** An account whose key is not here, and what it left. */
export interface OrphanedSigner extends UnattendedAccount {
  /** Submissions that are not known to be in a block. */
  readonly open: number;
  /** Milliseconds since the epoch: when the oldest of them was signed. */
  readonly oldestMs: number;
  /** Whether there is an endpoint through which its chain can be asked. */
  readonly isFollowed: boolean;
}

export interface KeylessAccountsOptions extends Omit<WatchSurroundings, "mechanism" | "gate"> {
  readonly ledger: WatchSurroundings["ledger"];
  /** The chains that can be looked at and sent to, by network, whoever settles on them. */
  readonly followers: ReadonlyMap<string, Follower>;
  /** Whether that network's chain may be believed. */
  readonly isTrusted: (network: string) => boolean;
  /** Those with a key here, now. */
  readonly accounts: () => readonly UnattendedAccount[];
  /** Signs anew what was left behind; undefined on networks on which nobody here signs. */
  readonly signerOf: (network: string) => Pick<SettlementEngine, "accept"> | undefined;
}

export class KeylessAccounts {
  readonly #at: KeylessAccountsOptions;
  readonly #senders = new Map<string, KeylessAccount>();
  /** Accounts that were named already; forgotten with the last of their submissions. */
  readonly #named = new Set<string>();
  #isClosed = false;

  constructor(options: KeylessAccountsOptions) {
    this.#at = options;
  }

  /** Submissions in the air. */
  get openCount(): number {
    return [...this.#senders.values()].reduce((sum, { openCount }) => sum + openCount, 0);
  }

  /** Accounts without a key here that left something open and that nobody with the key looks after. */
  async strangers(): Promise<readonly OrphanedSigner[]> {
    const found = await Promise.all((await this.#unattended()).map((each) => this.#read(each)));
    return found.filter(({ open }) => open > 0);
  }

  /** One round of recovery. Never rejects. */
  async round(): Promise<void> {
    try {
      const left = await this.#unattended();
      // By the lease as well: what was signed since a sender took up is for a sender of its own.
      const found = new Map(left.map((each) => [`${nameOf(each)} ${each.epoch}`, each]));
      for (const [name, sender] of this.#senders) {
        // Somebody with the key has it now, or has had it, or there is nothing left.
        if (found.has(name) && !sender.isEnded) continue;
        this.#senders.delete(name);
        await sender.close();
      }
      const names = new Set(left.map(nameOf));
      for (const name of this.#named) if (!names.has(name)) this.#named.delete(name);
      for (const [name, account] of found) await this.#take(name, account);
    } catch (cause) {
      this.#at.telemetry.logger.warn({ err: cause }, "accounts without a key were not looked for");
    }
    await Promise.all([...this.#senders.values()].map((sender) => sender.round()));
  }

  /** That network's chain is asked by somebody else from now on: the next round begins there anew. */
  async renew(network: string): Promise<void> {
    const { [network]: concerned = [] } = Object.groupBy(this.#senders, ([, { lease }]) => {
      return lease.network;
    });
    for (const [name, sender] of concerned) {
      this.#senders.delete(name);
      await sender.close();
    }
  }

  /** Looks no more; what is unfinished stays in the ledger. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#senders.values()].map((sender) => sender.close()));
    this.#senders.clear();
  }

  async #unattended(): Promise<readonly LeftAccount[]> {
    const accounts = await this.#at.ledger.signing.unattended();
    const ours = new Set(this.#at.accounts().map(nameOf));
    return accounts.filter((account) => !ours.has(nameOf(account)));
  }

  async #take(name: string, account: UnattendedAccount): Promise<void> {
    const { network } = account;
    const { followers, isTrusted, signerOf } = this.#at;
    if (this.#isClosed || this.#senders.has(name)) return;
    if (!this.#named.has(nameOf(account))) await this.#name(account);
    const mechanism = followers.get(network);
    if (mechanism === undefined || !isTrusted(network)) return;
    const signer = signerOf(network);
    const withdrawn: KeylessAccount["withdrawn"] =
      signer && ((key, request) => signer.accept({ key, request }, "withdrawn"));
    const gate = { isTrusted };
    const sender = await KeylessAccount.open(account, { ...this.#at, gate, mechanism, withdrawn });
    if (this.#isClosed) await sender?.close();
    else if (sender !== undefined) this.#senders.set(name, sender);
  }

  async #name(account: UnattendedAccount): Promise<void> {
    const stranger = await this.#read(account);
    this.#named.add(nameOf(account));
    if (stranger.open === 0) return;
    const { network, address, open, oldestMs } = stranger;
    const oldest = new Date(oldestMs).toISOString();
    const { logger } = this.#at.telemetry;
    logger.warn({ network, account: address, open, oldest }, describeOrphanedSigner(stranger));
  }

  async #read(account: UnattendedAccount): Promise<OrphanedSigner> {
    const { network } = account;
    const unfinished = await this.#at.ledger.signing.unfinished(network, account.address);
    const open = unfinished.filter(({ state }) => state === "OPEN");
    const address = open[0]?.variants[0]?.account ?? account.address;
    const oldestMs = Math.min(...open.map(({ signedMs }) => signedMs));
    const isFollowed = this.#at.followers.has(network);
    return { network, address, open: open.length, oldestMs, isFollowed };
  }
}

/** What is to be done about it, in a sentence without a final period. */
export function describeOrphanedSigner({ network, isFollowed }: OrphanedSigner): string {
  return isFollowed
    ? "an account whose key is not in this configuration left transactions open: they are looked for and " +
        `sent again, but what is stuck cannot be replaced; if one stays open, ${PUT_BACK}`
    : "an account whose key is not in this configuration left transactions open on a network without an " +
        `endpoint, and nobody looks after them: name one under facilitator.rpc.${network}`;
}

function nameOf({ network, address }: UnattendedAccount): string {
  return `${network} ${accountName(address)}`;
}
