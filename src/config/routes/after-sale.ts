/** What a buyer may have of what he has paid for beside its one delivery. */
import { z } from "zod";
import { LASTING, LASTING_FORM, readLasting } from "../reading/reading.ts";
import {
  described,
  duration,
  map,
  matching,
  optional,
  text,
  textLike,
  whole,
} from "../reading/shapes.ts";

/** How often and for how long what was sold may be fetched again; null: not at all. */
export type RepeatSettings = { readonly forMs: number; readonly times: number } | null;

/** A day: whoever wants his goods for longer wants more than a download that was cut, milliseconds. */
const MAX_REPEAT_MS = 86_400_000;

const FORM = "must be none, or a map of for and times: { for: 10m, times: 10 }";

const window = map({
  for: optional(
    duration.refine((ms) => ms > 0 && ms <= MAX_REPEAT_MS, "must be more than 0 and at most 24h"),
    "How long after the delivery.",
    "10m",
  ),
  times: optional(whole(1, 1_000), "How often, parts (`Range`) counted one by one.", 10),
});

export const repeat = z
  .union([textLike(/^none$/, FORM, "none"), window], FORM)
  .transform((value): RepeatSettings => {
    return typeof value === "string" ? null : { forMs: value.for, times: value.times };
  });

export const REPEAT_USAGE =
  "How often and how long a buyer may fetch with the payment of a GET the same URL again, whole or in parts (Range), " +
  "where the answer was too large to be kept (over 64 KiB) or a part itself: a download that was cut is had so. " +
  "Streams of events are not. Or none.";

/** For how long, and how often, who has paid has what is granted to him. */
export interface GrantSettings {
  readonly forMs: number;
  /** Requests of one purchase; null: as many as he likes. */
  readonly times: number | null;
}

/** Requests of one purchase: more of them is as good as all. */
const MAX_TIMES = 1_000_000;

const lasting = text(readLasting, matching(LASTING, LASTING_FORM, "24h", "30d"), LASTING_FORM);

export const grantFor = lasting;
export const grantTimes = whole(1, MAX_TIMES);

const GRANTS_FORM = "must be a time such as 12h or 30d, or a map of for and times";

export const grants = z
  .union(
    [
      lasting,
      map({
        for: described(lasting, "How long after it was paid."),
        times: optional(
          grantTimes,
          "How many requests, answers below 400 and `goods` counted; whatever fails is not. Without it: all.",
        ),
      }),
    ],
    GRANTS_FORM,
  )
  .transform((value): GrantSettings => {
    if (typeof value === "number") return { forMs: value, times: null };
    return { forMs: value.for, times: value.times ?? null };
  });
