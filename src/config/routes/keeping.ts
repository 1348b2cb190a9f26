/** `store.keep` and `store.archive`: how long the ledger keeps payments that are over, and where they go then. */
import { ok } from "../../x402/result.ts";
import { bad, LASTING, LASTING_FORM, readLasting, type Reader } from "../reading/reading.ts";
import { matching } from "../reading/shapes.ts";

export interface Keeping {
  /** How long a payment that is over stays, milliseconds; null: for ever. */
  readonly keepMs: number | null;
  /** Absolute path of the folder that it is written to before it goes; null: nowhere. */
  readonly archive: string | null;
}

const DAY_MS = 86_400_000;

export const STANDARD_KEEPING = { keep: "90d", keepMs: 90 * DAY_MS } as const;

const FOREVER = "forever";
const KEEP_FORM = `${LASTING_FORM}, or ${FOREVER}`;

export const KEEP = matching(
  new RegExp(`${LASTING.source}|^${FOREVER}$`),
  KEEP_FORM,
  "90d",
  FOREVER,
);

/** Milliseconds, or null for `forever`. Within a day no network is final for certain, and buyers come back. */
export const readKeep: Reader<number | null> = (text) => {
  if (text === FOREVER) return ok(null);
  const read = readLasting(text);
  if (!read.ok) return LASTING.test(text) ? read : bad(KEEP_FORM, read.error.suggestion);
  return read.value >= DAY_MS ? read : bad("must be at least 1d");
};
