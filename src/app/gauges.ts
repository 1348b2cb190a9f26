/** Gauges that somebody has to look after: what waits in the ledger, and what is left in our accounts. */
import type { Ledger } from "../ledger/ledger.ts";
import type { Mechanism, WalletBalance } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import type { Asset } from "../x402/network.ts";
import { messageOf } from "../x402/result.ts";

/** Pauses between two readings, milliseconds. */
const COUNTS_MS = 5_000;
const WALLETS_MS = 60_000;
const HEADS_MS = 15_000;
/** Longest that the balances of one network, or its head, may take, milliseconds. */
const BALANCE_TIMEOUT_MS = 10_000;

export interface GaugeSources {
  readonly ledger: Pick<Ledger, "books">;
  readonly mechanisms: readonly Pick<
    Mechanism,
    "network" | "accounts" | "balance" | "headTime" | "refunder"
  >[];
  /** The tokens that are paid back on a network. */
  readonly assetsOf: (network: string) => readonly Asset[];
  /** Hears what each of our accounts has, and what a settlement costs there. */
  readonly onWallet?: (network: string, wallet: WalletBalance) => void;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

/** Reads at once and then again and again; `stop` resolves when no reading is running any more. */
export function startGauges(sources: GaugeSources): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const { time } = sources;
  const loop = async (pauseMs: number, read: () => Promise<void>): Promise<void> => {
    while (!signal.aborted) {
      await read();
      await time.sleep(pauseMs, signal);
    }
  };
  const loops = [
    loop(COUNTS_MS, async () => {
      const { logger, metrics } = sources.telemetry;
      try {
        metrics.counts(await sources.ledger.books.counts());
      } catch (cause) {
        logger.warn({ err: cause }, "the payments in the ledger cannot be counted");
      }
    }),
    loop(WALLETS_MS, async () => {
      const { mechanisms, telemetry } = sources;
      telemetry.metrics.wallets.keep(
        mechanisms.flatMap(({ network, accounts }) =>
          accounts.map((address) => ({ network, address })),
        ),
      );
      await Promise.all(
        mechanisms.map(async (mechanism) => {
          for (const wallet of await readBalances(mechanism, sources, signal)) {
            telemetry.metrics.wallets.feePayer(mechanism.network, wallet);
            sources.onWallet?.(mechanism.network, wallet);
          }
          await readRefundBalances(mechanism, sources, signal);
        }),
      );
    }),
  ];
  loops.push(
    loop(HEADS_MS, async () => {
      // One that cannot be read stays as it was, and grows old: that is what the gauge is looked at for.
      const { mechanisms, telemetry, time } = sources;
      const limit = AbortSignal.any([signal, time.timeout(BALANCE_TIMEOUT_MS)]);
      telemetry.metrics.networks.keepHeads(mechanisms.map(({ network }) => network));
      await Promise.all(
        mechanisms.map(async (mechanism) => {
          const { network } = mechanism;
          const timestamp = await mechanism.headTime?.(limit).catch((cause: unknown) => {
            telemetry.logger.debug({ err: cause, network }, "the newest block cannot be read");
            return undefined;
          });
          if (timestamp !== undefined) telemetry.metrics.networks.head(network, timestamp);
        }),
      );
    }),
  );
  return {
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
  };
}

/** What the key for refunds has, where there is one; what cannot be read stays as it was. */
async function readRefundBalances(
  { network, refunder }: Pick<Mechanism, "network" | "refunder">,
  { assetsOf, telemetry, time }: Pick<GaugeSources, "assetsOf" | "telemetry" | "time">,
  closing: AbortSignal,
): Promise<void> {
  if (refunder === undefined) return;
  const signal = AbortSignal.any([closing, time.timeout(BALANCE_TIMEOUT_MS)]);
  const { address } = refunder;
  const read = assetsOf(network).map(async ({ address: token, symbol: asset, decimals }) => {
    const balanceAtomic = await refunder.balance(token, signal).catch(() => undefined);
    if (balanceAtomic === undefined) return;
    telemetry.metrics.wallets.refunds({ network, address, asset, decimals, balanceAtomic });
  });
  await Promise.all(read);
}

/** Those balances that could be read; the others are left out, readiness tells of their network. */
export async function readBalances(
  mechanism: Pick<Mechanism, "network" | "accounts" | "balance">,
  { telemetry, time }: Pick<GaugeSources, "telemetry" | "time">,
  closing: AbortSignal,
): Promise<readonly WalletBalance[]> {
  const { network } = mechanism;
  const signal = AbortSignal.any([closing, time.timeout(BALANCE_TIMEOUT_MS)]);
  const readings = await Promise.all(
    mechanism.accounts.map((account) =>
      mechanism.balance(account, signal).catch((cause: unknown) => {
        if (closing.aborted) return undefined;
        const detail = messageOf(cause);
        telemetry.logger.warn({ network, account, detail }, "the balance cannot be read");
        return undefined;
      }),
    ),
  );
  return readings.filter((reading) => reading !== undefined);
}
