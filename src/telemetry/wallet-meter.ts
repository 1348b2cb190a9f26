/** What is known of our accounts: those that pay network fees, and the keys that pay back. */
import { Gauge } from "prom-client";
import { formatAmount } from "../x402/amount.ts";
import type { MetricRegistry } from "./metric-registry.ts";

/** One of our accounts that pay network fees. */
interface WalletReading {
  readonly address: string;
  /** The network's own currency, in its smallest unit. */
  readonly balanceAtomic: bigint;
  readonly decimals: number;
  /** What one settlement costs at the present price, in that unit. */
  readonly settlementAtomic: bigint;
}

/** A key for refunds, and what it has of a token. */
interface RefundReading extends Pick<WalletReading, "address" | "decimals"> {
  readonly network: string;
  /** Symbol. */
  readonly asset: string;
  /** Of the token, atomic units. */
  readonly balanceAtomic: bigint;
}

interface Account {
  readonly network: string;
  readonly address: string;
}

export class WalletMeter {
  readonly #balance: Gauge;
  readonly #settlements: Gauge;
  readonly #refundBalance: Gauge;
  #feePayers: readonly Account[] = [];

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    this.#balance = new Gauge({
      name: "coinslot_wallet_balance",
      help: "Balance of an account that pays network fees, in whole units of the network's currency",
      labelNames: ["network", "address"],
      registers,
    });
    this.#settlements = new Gauge({
      name: "coinslot_wallet_settlements_left",
      help: "Settlements that the balance of the account pays for at the present price",
      labelNames: ["network", "address"],
      registers,
    });
    this.#refundBalance = new Gauge({
      name: "coinslot_refund_balance",
      help: "What the key for refunds has of a token, in whole tokens",
      labelNames: ["network", "address", "asset"],
      registers,
    });
  }

  /** Those that pay fees from now on: what others had is told no more, since nobody reads it. */
  keep(accounts: readonly Account[]): void {
    const kept = new Set(accounts.map(nameOf));
    for (const gone of this.#feePayers.filter((each) => !kept.has(nameOf(each)))) {
      const { network, address } = gone;
      for (const gauge of [this.#balance, this.#settlements]) gauge.remove({ network, address });
    }
    this.#feePayers = accounts;
  }

  feePayer(network: string, wallet: WalletReading): void {
    const { address, balanceAtomic, decimals, settlementAtomic } = wallet;
    const labels = { network, address };
    this.#balance.set(labels, Number(formatAmount(balanceAtomic, decimals)));
    this.#settlements.set(
      labels,
      settlementAtomic > 0n ? Number(balanceAtomic / settlementAtomic) : Number.POSITIVE_INFINITY,
    );
  }

  refunds({ network, address, asset, balanceAtomic, decimals }: RefundReading): void {
    this.#refundBalance.set(
      { network, address, asset },
      Number(formatAmount(balanceAtomic, decimals)),
    );
  }
}

function nameOf({ network, address }: Account): string {
  return `${network} ${address}`;
}
