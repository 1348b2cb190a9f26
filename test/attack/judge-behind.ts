/**
 * What is wrong with what came of one attack where another proxy stands before the backend. That one answers much
 * by itself, in its own words, so that statuses are its own affair; what reaches the backend is ours, and is judged
 * by the same oracle.
 */
import { cutRequests, valuesOf } from "./framing.ts";
import type { Flaw } from "./flaw.ts";
import { judgeArrived, type Evidence } from "./judge.ts";
import type { Oracle } from "./oracle.ts";
import { FORGED, RECEIPTS, SEEN_HEADER } from "./recording-backend.ts";
import { PUBLIC_URL, type Gateway } from "./shop.ts";

/** What the judge of our own lines calls a request without `Connection`, which is no flaw of another's. */
const PERSISTENT = "Connection: ";

export function judgeBehind(
  { dialogue, arrived }: Evidence,
  oracle: Oracle,
  gateway: Gateway,
): readonly Flaw[] {
  const { answers, received } = dialogue;
  const flaws = judgeArrived(arrived, oracle, gateway).filter(
    ({ detail }) => detail !== PERSISTENT,
  );
  for (const name of [...RECEIPTS, "X-402-Payer"]) {
    if (new RegExp(`^${name}: *${FORGED}`, "im").test(received)) {
      flaws.push({ kind: "crossing", detail: `the client got the backend's own ${name}` });
    }
  }
  const requests = arrived.flatMap(({ bytes }) => cutRequests(bytes).requests);
  const goods = answers.filter(({ lines }) => valuesOf(lines, SEEN_HEADER).length > 0);
  if (goods.length > requests.length) {
    flaws.push({ kind: "smuggle", detail: `${goods.length} answers of ${requests.length}` });
  }
  const priced = answers.filter(({ status, body }) => status === 402 && body !== "");
  for (const { body } of priced.filter((each) => !each.body.includes(`"${PUBLIC_URL}/`))) {
    flaws.push({ kind: "answer", detail: `402 without our resource: ${body.slice(0, 200)}` });
  }
  return flaws;
}
