/**
 * An account that signed and whose key is not here: what it left is looked at, sent again byte for byte and
 * concluded, with the very watches of a sender. It signs nothing and replaces nothing, so it needs no lease of
 * the account and stands in nobody's way who has the key; its own lease, on the watching, only keeps several
 * replicas without the key from doing the same work.
 */
import type { WatchSurroundings } from "./surroundings.ts";
import type { Lease } from "../../ledger/ledger.ts";
import { AccountWatches } from "./account-watches.ts";
import type { VerdictEvents } from "./payment-verdicts.ts";
import type { WatchedAccount } from "./submission-watch.ts";
import type { UnattendedAccount } from "../../ledger/unattended.ts";

/** Before the address: the lease on watching an account. No network has such addresses. */
const WATCHING = "keyless/";

export interface KeylessAccountOptions extends WatchSurroundings {
  /** The account, with the epoch of the lease on watching it: nothing is signed with it. */
  readonly lease: Lease;
  /** Who signs anew what was left behind; undefined where nobody here does. */
  readonly withdrawn: VerdictEvents["withdrawn"];
}

export class KeylessAccount implements WatchedAccount {
  readonly lease: Lease;
  readonly withdrawn: VerdictEvents["withdrawn"];
  readonly #at: KeylessAccountOptions;
  readonly #ending = new AbortController();
  readonly #watches: AccountWatches;

  private constructor(options: KeylessAccountOptions) {
    this.#at = options;
    this.lease = options.lease;
    this.withdrawn = options.withdrawn;
    const ending = this.#ending.signal;
    this.#watches = new AccountWatches({ at: options, sender: this, ending, onChange: () => {} });
  }

  /** Undefined where another life watches the account. Throws what the ledger throws. */
  static async open(
    { network, address }: UnattendedAccount,
    options: Omit<KeylessAccountOptions, "lease">,
  ): Promise<KeylessAccount | undefined> {
    const watching = await options.ledger.signing.lease(network, WATCHING + address);
    const lease = watching && { network, address, epoch: watching.epoch };
    return lease && new KeylessAccount({ ...options, lease });
  }

  /** The watching was lost to another life, or {@link close} was called. */
  get isEnded(): boolean {
    return this.#ending.signal.aborted;
  }

  get openCount(): number {
    return this.#watches.openCount;
  }

  /** Takes up what is unfinished and looks again at what is not final. Never rejects. */
  round(): Promise<void> {
    return this.#watches.round();
  }

  /** Looks no more, and leaves the watching to others. Never rejects. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#watches.ended();
    const { ledger, telemetry } = this.#at;
    await ledger.signing.unlease(this.#watching).catch((cause: unknown) => {
      telemetry.logger.warn({ err: cause }, "the watching of an account was not given back");
    });
  }

  /** Whoever waits for a payment follows its row. */
  landed(): void {}

  /** A payer is suspected by those who sign for him. */
  failedOnChain(): void {}

  /** Nor does anything here give places to payments, or take them. */
  included(): void {}
  leftBehind(): void {}
  reverted(): void {}

  isNext(accountNonce: number): boolean {
    return this.#watches.isNext(accountNonce);
  }

  async doubted(): Promise<void> {
    const { network, address, epoch } = this.#watching;
    const held = await this.#at.ledger.signing.lease(network, address).catch(() => undefined);
    if (held?.epoch !== epoch) this.#ending.abort();
  }

  /** Somebody uses its nonces, as is to be expected. */
  overtaken(): void {}

  get #watching(): Lease {
    return { ...this.lease, address: WATCHING + this.lease.address };
  }
}
