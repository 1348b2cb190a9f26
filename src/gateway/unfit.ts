/** What a paid request lacks of what its route declares, found before its payment is taken. */
import type { Unfit } from "../payments/sale/admission.ts";
import type { PricedDecision } from "./decision.ts";
import { keptBody } from "./message/inbound.ts";
import { hasRequestBody, isKeepable } from "./message/request-body.ts";
import type { Visitor } from "./visitor.ts";

/** What has no answer that ends cannot be held. */
const UNHOLDABLE: Unfit = {
  kind: "unfit",
  faults: ["this is paid when its answer is there, and a connection that is switched has none"],
};

/** Nobody counts in what both sides send. */
const UNCOUNTABLE: Unfit = {
  kind: "unfit",
  faults: [
    "this is charged by what its answer has used, and a connection that is switched has none",
  ],
};

/** Null where nothing is found, and of a body that is too large to be kept until it is forwarded. */
export function unfitOf(
  { request, replaying }: Visitor,
  { plan, target }: Pick<PricedDecision, "plan" | "target">,
): Unfit | null | Promise<Unfit | null> {
  if (plan.isSettledAfter && replaying === null) return UNHOLDABLE;
  if (plan.metering !== undefined && replaying === null) return UNCOUNTABLE;
  const { input } = plan;
  if (input === null) return null;
  const found = told(input.headFaults(target, request));
  if (found !== null || replaying === null || !input.readsBody(request)) return found;
  if (!isKeepable(request)) return null;
  const judged = (body: Buffer): Unfit | null => told(input.bodyFaults(body, request));
  const known = hasRequestBody(request) ? keptBody(request) : Buffer.alloc(0);
  if (known) return judged(known);
  return replaying.readBodyHash(true).then((hash) => {
    const body = keptBody(request);
    return hash === null || !body ? null : judged(body);
  });
}

function told(faults: readonly string[]): Unfit | null {
  return faults.length === 0 ? null : { kind: "unfit", faults };
}
