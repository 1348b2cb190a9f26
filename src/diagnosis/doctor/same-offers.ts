/** Whether what a gateway offers is what a file says, whoever pays network fees at the moment. */
import type { PaymentRequirements } from "../../x402/x402.ts";
import { TOLD_AT_RUN_TIME } from "../dry-gateway.ts";

/** The offers in the body of a 402; undefined where it has none. */
export function readAccepts(text: string): readonly unknown[] | undefined {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== "object" || body === null || !("accepts" in body)) return undefined;
    return Array.isArray(body.accepts) ? body.accepts : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The first thing in which they differ, as part of a sentence; null: nothing. What is sold only while a
 * facilitator tells its fee payer may be missing.
 */
export function firstDifference(
  expected: readonly PaymentRequirements[],
  got: readonly unknown[],
): string | null {
  let at = 0;
  for (const offer of expected) {
    const other = got[at];
    const difference = offerDifference(offer, other);
    if (difference === null) at += 1;
    else if (offer.extra?.["feePayer"] !== TOLD_AT_RUN_TIME) return difference;
  }
  return at === got.length ? null : `there are ${got.length} offers, not ${expected.length}`;
}

function offerDifference(expected: PaymentRequirements, got: unknown): string | null {
  if (typeof got !== "object" || got === null) return `no offer on ${expected.network}`;
  const [mine, other] = [comparable(expected), comparable(got)];
  for (const name of new Set([...Object.keys(mine), ...Object.keys(other)])) {
    if (mine[name] === other[name]) continue;
    return `${name} is ${short(other[name])}, not ${short(mine[name])}`;
  }
  return null;
}

/** Each member as JSON; without the account that pays network fees, which may be another one any time. */
function comparable(offer: object): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(offer).map(([name, value]) => {
      const { feePayer: _, ...extra } = name === "extra" ? Object(value) : {};
      return [name, JSON.stringify(name === "extra" ? extra : value)];
    }),
  );
}

/** Longest part of a value that is shown, characters. */
const MAX_SHOWN = 80;

function short(json: string | undefined): string {
  if (json === undefined) return "absent";
  return json.length > MAX_SHOWN ? `${json.slice(0, MAX_SHOWN)}…` : json;
}
