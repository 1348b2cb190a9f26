/** What a paid request lacks of what its route declares, found before its payment is taken. */
import type { Unfit } from "../payments/sale/admission.ts";
import type { PresentedDecision } from "./decision.ts";
import { keptBody } from "./message/inbound.ts";
import { hasRequestBody } from "./message/request-body.ts";
import type { Visitor } from "./visitor.ts";

/** Null where nothing is found, and of a body that is too large to be kept until it is forwarded. */
export async function unfitOf(
  { request, replaying }: Visitor,
  { plan, target }: PresentedDecision,
): Promise<Unfit | null> {
  const { input } = plan;
  if (input === null) return null;
  const faults = input.headFaults(target, request);
  if (faults.length > 0) return { kind: "unfit", faults };
  if (replaying === null || !input.readsBody(request)) return null;
  const hash = await replaying.readBodyHash(true);
  const body = hasRequestBody(request) ? keptBody(request) : Buffer.alloc(0);
  if (hash === null || body === undefined || body === null) return null;
  const found = input.bodyFaults(body, request);
  return found.length === 0 ? null : { kind: "unfit", faults: found };
}
