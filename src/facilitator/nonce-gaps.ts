/**
 * Account nonces that were given out and never used: a node may refuse a settlement for good, and its
 * authorization expire, while later settlements of the same account wait for that nonce. Its bytes are
 * sent until the chain has passed it; they can no longer move money, they only use the nonce up.
 */
import type { Ledger } from "../ledger/ledger.ts";
import type { Mechanism } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { NetworkGate } from "./network-gate.ts";

/** Longest that one look at one account may take, milliseconds. */
const LOOK_TIMEOUT_MS = 10_000;

export interface GapOptions {
  readonly mechanisms: readonly Mechanism[];
  readonly ledger: Pick<Ledger, "unusedNonces">;
  readonly gate: Pick<NetworkGate, "isOpen">;
  readonly telemetry: Telemetry;
}

export class NonceGaps {
  readonly #options: GapOptions;
  /** Account nonces below these are used for good: neither chain nor ledger is asked about them again. */
  readonly #mined = new Map<string, number>();

  constructor(options: GapOptions) {
    this.#options = options;
  }

  /** One look at every account. Never rejects: what cannot be sent now is tried in the next round. */
  async fill(): Promise<void> {
    const { mechanisms, gate } = this.#options;
    for (const mechanism of mechanisms.filter(({ network }) => gate.isOpen(network))) {
      for (const account of mechanism.accounts) await this.#fillAccount(mechanism, account);
    }
  }

  async #fillAccount(mechanism: Mechanism, account: string): Promise<void> {
    const { ledger, telemetry } = this.#options;
    const { network } = mechanism;
    const name = `${network}/${account}`;
    const signal = AbortSignal.timeout(LOOK_TIMEOUT_MS);
    try {
      const suspects = await ledger.unusedNonces(network, account, this.#mined.get(name) ?? 0);
      if (suspects.length === 0) return;
      const mined = await mechanism.minedNonce(account, signal);
      this.#mined.set(name, mined);
      for (const signed of suspects.filter(({ accountNonce }) => accountNonce >= mined)) {
        const { accountNonce, transaction } = signed;
        telemetry.logger.warn({ network, account, accountNonce, transaction }, "using a nonce up");
        await mechanism.broadcast(signed, signal);
      }
    } catch (cause) {
      telemetry.logger.warn({ err: cause, network, account }, "account nonces not looked at");
    }
  }
}
