/** A sample of the cases as sales: what was paid for arrives as unharmed as what is free. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RECEIPT_HEADERS } from "../../src/x402/header.ts";
import type { X402Version } from "../../src/x402/x402.ts";
import { VERSIONS } from "../support/buyer.ts";
import { answering } from "./backend.ts";
import type { Case } from "./case.ts";
import { answerCases } from "./cases/answers.ts";
import { requestCases } from "./cases/requests.ts";
import type { Ask } from "./client.ts";
import {
  arrivedText,
  expectedAtBackend,
  expectedAtClient,
  hasDate,
  receivedText,
  type Protocol,
} from "./differences.ts";
import { Fronts } from "./fronts.ts";
import { valueOf } from "./wire.ts";

/** Every so-manieth case; a prime, so that no kind of case is left out. */
const SAMPLE = 5;

const fronts = new Fronts();
beforeAll(() => fronts.open());
afterAll(() => fronts.close());

let played = 0;

async function compare(each: Case, protocol: Protocol, version: X402Version): Promise<void> {
  played += 1;
  const { backend } = fronts.of(protocol);
  const path = `/paid/case/${played}`;
  const ask: Ask = { ...each.ask, target: `${path}${each.ask.query ?? ""}` };
  const seen = backend.play(path, answering(each.answer, each.ends ? "close" : "keep"));
  const direct = await fronts.askDirectly(protocol, ask);
  const payment = await fronts.of(protocol).payment(ask.target, version);
  const paying = { ...ask, lines: [...(ask.lines ?? []), payment] };
  const through = await fronts.ask(protocol, paying);
  const [plain, forwarded, ...others] = seen.requests;
  expect(others).toEqual([]);
  if (plain === undefined || forwarded === undefined) throw new Error("a request did not arrive");
  const shown = forwarded.lines.filter(([name]) => /^(?:x-payment|payment-signature)$/i.test(name));
  expect(shown).toEqual([]);
  expect(arrivedText(forwarded)).toBe(expectedAtBackend(plain, protocol));
  const view = { protocol, isOld: ask.version === "1.0", isSold: true };
  // Our own line beside those of the backend: where its buyer asks what became of the payment.
  const isStatus = ([name, value]: (typeof through.lines)[number]): boolean =>
    name.toLowerCase() === "link" && value.endsWith('; rel="status"');
  expect(through.lines.filter(isStatus)).toHaveLength(1);
  const received = { ...through, lines: through.lines.filter((line) => !isStatus(line)) };
  expect(receivedText(received, view, hasDate(direct))).toBe(expectedAtClient(direct, view));
  const receipts = VERSIONS.map((each) =>
    valueOf(through.lines, RECEIPT_HEADERS[each].toLowerCase()),
  );
  expect(receipts.map(Boolean)).toEqual(VERSIONS.map((each) => each === version));
  expect(backend.faults).toEqual([]);
}

/** Half of it in each version; what is paid for in the one over this protocol is in the other over the next. */
function sampleOver(
  cases: readonly Case[],
  protocol: Protocol,
): (readonly [string, X402Version, Case])[] {
  const parity = Fronts.protocols.indexOf(protocol);
  return cases
    .filter(({ only }) => only === undefined || only.includes(protocol))
    .filter((_, index) => index % SAMPLE === 0)
    .map((each, index) => [each.name, (index + parity) % 2 === 0 ? 1 : 2, each]);
}

describe.each(Fronts.protocols)("over %s", (protocol) => {
  test.each(sampleOver(requestCases, protocol))(
    "a request that was paid for arrives unharmed: %s (version %i)",
    (_, version, each) => compare(each, protocol, version),
  );
  test.each(sampleOver(answerCases, protocol))(
    "an answer that was paid for arrives unharmed: %s (version %i)",
    (_, version, each) => compare(each, protocol, version),
  );
});
