/**
 * What an operator decides about one payment, carried out in whichever process may write it: beside a running
 * gateway or without one.
 */
import { userInfo, hostname } from "node:os";
import type { Config } from "../config/config.ts";
import { LedgerInUse } from "../ledger/sqlite/sqlite-lock.ts";
import type { Ledger, Resolution, Resolved } from "../ledger/ledger.ts";
import { resolveBeside } from "../ledger/sqlite/sqlite-resolutions.ts";
import { createLogger } from "../telemetry/logger.ts";
import { systemTime, type Time } from "../time/time.ts";
import { openBooks, type PaymentSummary } from "../admin/books.ts";
import { openLedger } from "./store.ts";

export type { Resolution, Resolved } from "../ledger/ledger.ts";

export interface Resolving {
  readonly resolved: Resolved;
  /** As it is afterwards. */
  readonly payment: PaymentSummary | undefined;
}

/** `operator alice@host`, for the history of the payment. */
export function operatorName(): string {
  return `operator ${userName()}@${hostname()}`;
}

/** A container's user may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown");
  }
}

/**
 * `key` is the whole key of a payment: a nonce is chosen by its payer, and a transaction may carry several.
 * Throws `LedgerUnavailable` where the ledger cannot be read or written; then nothing was changed.
 */
export async function resolvePayment(
  config: Pick<Config, "store" | "webhooks" | "refunds" | "facilitator">,
  key: string,
  { isByHand = false, ...asked }: Omit<Resolution, "isSent"> & { readonly isByHand?: boolean },
): Promise<Resolving> {
  const books = await openBooks(config);
  try {
    const found = await books.show(key);
    if (found === undefined || found.key.toLowerCase() !== key.toLowerCase()) {
      return {
        resolved: { kind: "refused", reason: "no payment has this key" },
        payment: undefined,
      };
    }
    const isSent = asked.verb === "refund" && !isByHand && paysBack(config, found.network);
    const resolution = { ...asked, isSent };
    const resolved = await writeLedger(
      config,
      (ledger) => ledger.step(found.key, { kind: "resolve", resolution }),
      (beside) => resolveBeside(beside, found.key, resolution),
    );
    return { resolved, payment: await books.show(found.key) };
  } finally {
    await books.close();
  }
}

/** Whether refunds on that network are ours to send. */
export function paysBack(
  { facilitator, refunds }: Pick<Config, "refunds" | "facilitator">,
  network: string,
): boolean {
  const settings = facilitator.embedded.find((each) => each.network === network);
  return settings !== undefined && (refunds?.signers[settings.kind] ?? null) !== null;
}

/** Whether what the last attempt does not deliver is paid back on a network, by the configuration in force then. */
export function refundsLast(
  inForce: () => Pick<Config, "refunds" | "facilitator">,
): (network: string) => boolean {
  return (network) => {
    const config = inForce();
    return config.refunds?.automatic === true && paysBack(config, network);
  };
}

/**
 * Opens the ledger and does it, or has it done by the process that has a SQLite file open. Throws `LedgerUnavailable`
 * where neither can be.
 */
export async function writeLedger<Outcome>(
  config: Pick<Config, "store" | "webhooks">,
  write: (ledger: Ledger) => Promise<Outcome>,
  ask: (beside: { readonly path: string; readonly time: Time }) => Promise<Outcome>,
): Promise<Outcome> {
  const logger = createLogger({ level: "silent", format: "json" });
  let ledger: Ledger;
  try {
    ledger = await openLedger(config, { logger, time: systemTime });
  } catch (cause) {
    const { store } = config;
    if (!(cause instanceof LedgerInUse) || store.kind !== "sqlite") throw cause;
    return ask({ path: store.path, time: systemTime });
  }
  try {
    return await write(ledger);
  } finally {
    await ledger.close();
  }
}
