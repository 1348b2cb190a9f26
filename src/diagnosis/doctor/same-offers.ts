/** Whether what a gateway offers is what a file says, whoever pays network fees at the moment. */
import { readHeaderJson } from "../../buyer/offer.ts";
import { memberOf, parseJson } from "../../x402/json.ts";
import { NOT_COMPARED } from "../../x402/version-2.ts";
import { TOLD_AT_RUN_TIME } from "../dry-gateway.ts";

/** What a 402 offers in each version; undefined where it has none. */
interface OffersOf402 {
  readonly v1: readonly unknown[] | undefined;
  readonly v2: readonly unknown[] | undefined;
}

/** @param header the value of `PAYMENT-REQUIRED`; null: there is none */
export function readOffers(body: string, header: string | null): OffersOf402 {
  return { v1: acceptsOf(parseJson(body)), v2: acceptsOf(header && readHeaderJson(header)) };
}

function acceptsOf(quote: unknown): readonly unknown[] | undefined {
  const accepts = memberOf(quote, "accepts");
  return Array.isArray(accepts) ? accepts : undefined;
}

/**
 * The first thing in which they differ, as part of a sentence; null: nothing. What is sold only while a
 * facilitator tells its fee payer may be missing.
 */
export function firstDifference(
  expected: readonly unknown[],
  got: readonly unknown[],
): string | null {
  let at = 0;
  for (const offer of expected) {
    const other = got[at];
    const difference = offerDifference(offer, other);
    if (difference === null) at += 1;
    else if (memberOf(memberOf(offer, "extra"), "feePayer") !== TOLD_AT_RUN_TIME) return difference;
  }
  return at === got.length ? null : `there are ${got.length} offers, not ${expected.length}`;
}

function offerDifference(expected: unknown, got: unknown): string | null {
  if (typeof got !== "object" || got === null) {
    return `no offer on ${String(memberOf(expected, "network"))}`;
  }
  const [mine, other] = [comparable(Object(expected)), comparable(got)];
  for (const name of new Set([...Object.keys(mine), ...Object.keys(other)])) {
    if (mine[name] === other[name]) continue;
    return `${name} is ${short(other[name])}, not ${short(mine[name])}`;
  }
  return null;
}

/** Each member as JSON; without what `extra` may say otherwise any time: who pays network fees, and a blockhash. */
function comparable(offer: object): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(offer).map(([name, value]) => {
      if (name !== "extra") return [name, JSON.stringify(value)];
      const kept = Object.entries(Object(value)).filter(([each]) => !NOT_COMPARED.has(each));
      return [name, JSON.stringify(Object.fromEntries(kept))];
    }),
  );
}

/** Longest part of a value that is shown, characters. */
const MAX_SHOWN = 80;

function short(json: string | undefined): string {
  if (json === undefined) return "absent";
  return json.length > MAX_SHOWN ? `${json.slice(0, MAX_SHOWN)}…` : json;
}
