/**
 * `coinslot payments FILE --export PATH`: payments that are over as JSON lines, oldest first, read from the ledger
 * beside a running gateway or without one. What was written stays; the same command goes on behind it.
 */
import { archiveLine } from "../../app/archive.ts";
import type { Books } from "../../admin/books.ts";
import { LineFile } from "../../app/line-file.ts";
import { Tokens } from "../../admin/payment-view.ts";
import type { Config } from "../../config/config.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";

/** Payments that are written at once. */
const PAGE = 200;

/** Resolves with how many were written. Rejects where the file holds something else. */
export async function exportPayments(
  books: Books,
  config: Config,
  { path, beforeMs }: { readonly path: string; readonly beforeMs: number },
): Promise<number> {
  const tokens = new Tokens(config);
  const file = await LineFile.open(path);
  try {
    let after = file.lastLine === undefined ? undefined : placeOf(file.lastLine, path);
    for (let written = 0; ;) {
      const payments = await books.ended({ beforeMs, after, limit: PAGE });
      await file.append(payments.map((payment) => archiveLine(payment, tokens)));
      written += payments.length;
      after = payments.at(-1);
      if (payments.length < PAGE) return written;
    }
  } finally {
    await file.close();
  }
}

interface Place {
  readonly claimedMs: number;
  readonly key: PaymentKey;
}

function placeOf(line: string, path: string): Place {
  const { key, claimedAt } = objectIn(line);
  const claimedMs = Date.parse(String(claimedAt));
  if (typeof key !== "string" || Number.isNaN(claimedMs)) {
    throw new Error(`${path} holds something else than exported payments`);
  }
  return { claimedMs, key: key as PaymentKey };
}

function objectIn(line: string): { readonly key?: unknown; readonly claimedAt?: unknown } {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}
