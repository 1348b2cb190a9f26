/** A sale as an engine sees it, of which nothing is stored. */
import type { Sale } from "../../src/gateway/upstream/upstream.ts";

export const UNSTORED_SALE: Sale = {
  idempotencyKey: "ours",
  failureLines: [],
  keepBytes: 1_000,
  readOnMs: 1_000,
  judge: (status) => (status < 400 ? "goods" : "nothing"),
  refused: async () => undefined,
};
