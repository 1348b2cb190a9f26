/** `free` of a route: what everybody has of it before its price begins. */
import { z } from "zod";
import { ok } from "../../x402/result.ts";
import { bad, fault } from "../reading/reading.ts";
import { described, map, matching, text, word } from "../reading/shapes.ts";
import type { Context } from "../reading/context.ts";
import type { Path } from "../reading/tree.ts";

const QUOTA_BY = ["payer", "address"] as const;

/** By what strangers are told apart: the account that they have signed in with, or where they come from. */
export type QuotaBy = (typeof QUOTA_BY)[number];

export interface QuotaSettings {
  /** At least 1. */
  readonly requests: number;
  /** Windows of so long follow one another since the epoch, so that a day is one of UTC; milliseconds. */
  readonly windowMs: number;
  readonly by: QuotaBy;
}

const WINDOWS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const RATE = "[1-9][0-9]{0,5}/[smhd]";
const RATE_FORM = "must be how many requests in which time, such as 100/d, 20/h, 5/m or 1/s";

const rate = text(
  (written) => {
    const read = readRate(written);
    return read === undefined ? bad(RATE_FORM) : ok(read);
  },
  matching(new RegExp(`^${RATE}$`), RATE_FORM, "100/d", "20/h"),
  RATE_FORM,
);

function readRate(written: string): Omit<QuotaSettings, "by"> | undefined {
  if (!new RegExp(`^${RATE}$`).test(written)) return undefined;
  const [digits = "", unit = ""] = written.split("/");
  return { requests: Number(digits), windowMs: WINDOWS[unit] ?? 0 };
}

const FORM = "must be such as 100/d by payer or 100/d by address, or a map of requests and by";
const WRITTEN = new RegExp(`^(${RATE}) +by +(payer|address)$`);

const line = text(
  (written) => {
    const [, told = "", by] = WRITTEN.exec(written) ?? [];
    const read = readRate(told);
    const isBy = by === "payer" || by === "address";
    return read === undefined || !isBy ? bad(FORM) : ok({ ...read, by } satisfies QuotaSettings);
  },
  matching(WRITTEN, FORM, "100/d by payer", "20/h by address"),
);

const block = map({
  requests: described(rate, "How many, and in which time: s, m, h or d, which begin by UTC."),
  by: described(
    word(QUOTA_BY),
    "payer: of each account that has signed in, or shows a session. address: of each address, of IPv6 each /64.",
  ),
}).transform(({ requests, by }): QuotaSettings => ({ ...requests, by }));

export const quota = z.union([line, block], FORM);

export const QUOTA_USAGE =
  "How many requests are free before the price begins, such as 100/d by payer (who has signed in) or 100/d by address: " +
  "days begin at midnight UTC. An answer that is no goods costs nothing of it. Of one network of addresses, and in all, only so " +
  "many have it in one window: for others the price begins at once.";

/** Where nobody signs in there are no payers. */
export function refuseQuota(
  quotaOf: QuotaSettings | undefined,
  path: Path,
  { tree, problems }: Context,
): void {
  if (quotaOf?.by !== "payer" || !tree.has(["sidecar"])) return;
  const message = "has no effect by payer behind another proxy, where nobody has a session";
  const hint = "write `by address`, or listen for buyers";
  problems.error(path, fault("unused-key", message, hint));
}
