/**
 * What can only be told when all attacks are over: that the gateway still sells and keeps its word, that nothing
 * secret has come out, and that each request at the backend was decided about.
 */
import type { X402Version } from "../../src/x402/x402.ts";
import type { Answer } from "./dialogue.ts";
import { cutRequests, valuesOf } from "./framing.ts";
import type { Flaw } from "./flaw.ts";
import { isPayment, valuesByReader } from "./name-readers.ts";
import { FORGED, RECEIPTS, STEERING, type Arrived } from "./recording-backend.ts";

/** What a client adds to its payment, so that the backend believes something else. */
export const FORGED_LINES = [
  `X-402-Payer: ${FORGED}`,
  `X-402-Transaction: ${FORGED}`,
  ...RECEIPTS.map((name) => `${name}: ${FORGED}`),
  "Connection: X-402-Payer, X-402-Transaction, X-Forwarded-For, Idempotency-Key",
];

/** The same as some backends would read it; a proxy of the operator's own may refuse such names. */
export const ODDLY_FORGED_LINES = [
  `X.402.Payer: ${FORGED}`,
  `X*402*Transaction: ${FORGED}`,
  `Idempotency~Key: ${FORGED}`,
];

/** What the backend is told of a sale, once each. */
const TOLD = ["x-402-payer", "x-402-transaction", "x-402-network", "idempotency-key"];

/** H11, H12 and H17, on an answer that was paid for. */
export function judgeSale(
  version: X402Version,
  answer: Answer | undefined,
  bought: readonly Arrived[],
): Flaw[] {
  if (answer?.status !== 200) {
    return [{ kind: "crash", detail: `a good payment is answered with ${answer?.status}` }];
  }
  const flaws: Flaw[] = [];
  const flaw = (detail: string): void => void flaws.push({ kind: "payment", detail });
  const said = (name: string): string => valuesOf(answer.lines, name).join(" | ");
  if (said("cache-control") !== "private, no-store")
    flaw(`Cache-Control: ${said("cache-control")}`);
  const { payment } = NAMES[version];
  if (
    !said("vary")
      .toLowerCase()
      .split(/ *[,|] */)
      .includes(payment)
  )
    flaw(`Vary: ${said("vary")}`);
  for (const name of STEERING) if (said(name.toLowerCase()) !== "") flaw(`${name} crosses`);
  return [...flaws, ...judgeReceipts(version, [answer]), ...judgeTold(bought)];
}

/** In lower case: the header of a payment, and of what is said of it. */
const NAMES: Readonly<Record<X402Version, { readonly payment: string; readonly receipt: string }>> =
  {
    1: { payment: "x-payment", receipt: "x-payment-response" },
    2: { payment: "payment-signature", receipt: "payment-response" },
  };

/** What was sold is told once, in the envelope in which it was paid. */
export function judgeReceipts(version: X402Version, answers: readonly Answer[]): Flaw[] {
  const told = answers.map(({ lines }) =>
    Object.values(NAMES).flatMap(({ receipt }) =>
      valuesOf(lines, receipt).map((value) => ({ receipt, value })),
    ),
  );
  const isTold = told.flat().some(({ receipt, value }) => {
    const { success } = readJson(Buffer.from(value, "base64").toString());
    return receipt === NAMES[version].receipt && success === true;
  });
  const missing = isTold ? [] : [`no ${NAMES[version].receipt} of a sale`];
  const several = told.filter(({ length }) => length > 1).map(({ length }) => `${length} receipts`);
  return [...missing, ...several].map((detail) => ({ kind: "payment", detail }));
}

/** What the backend is told of a sale comes from us alone, whichever way it reads names. */
export function judgeTold(bought: readonly Arrived[]): Flaw[] {
  const request = bought.flatMap(({ bytes }) => cutRequests(bytes).requests).at(-1);
  const lines = request?.lines ?? [];
  const told = TOLD.flatMap((name) =>
    valuesByReader(lines, name).map((each) => ({ name, ...each })),
  );
  const wrong = told.filter(({ values }) => values.length !== 1 || values.includes(FORGED));
  const details = wrong.map(
    ({ name, reader, values }) => `${name} to ${reader}: ${values.join(" | ")}`,
  );
  const shown = lines.filter(([name]) => isPayment(name));
  details.push(...shown.map(([name]) => `${name} went on to the backend`));
  return details.map((detail) => ({ kind: "payment", detail }));
}

function readJson(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** H12 and H18. @param told everything that an operator sees */
export function judgeSecrets(told: string, payments: readonly string[], key: string): Flaw[] {
  const seen = payments.filter(
    (payment) => told.includes(payment) || told.includes(signatureOf(payment)),
  );
  const flaws = seen.map((): Flaw => ({ kind: "payment", detail: "a payment stands in the log" }));
  if (told.toLowerCase().includes(key.slice(2).toLowerCase())) {
    flaws.push({ kind: "payment", detail: "the signer's key stands in the log" });
  }
  return flaws;
}

function signatureOf(header: string): string {
  const { payload } = readJson(Buffer.from(header, "base64").toString());
  return String(Object(payload).signature ?? header);
}

/**
 * Requests at the backend that the gateway has not decided to be free, or not so often.
 *
 * @param arrived of each case; an index of it is given back
 * @param prefix what each path at the backend begins with
 */
export function findUndecided(
  log: string,
  arrived: readonly (readonly Arrived[])[],
  prefix: string,
): readonly { readonly index: number; readonly flaw: Flaw }[] {
  const decided = new Map<string, number>();
  for (const line of log.split("\n")) {
    if (!line.includes('"request answered"')) continue;
    const { method, path, outcome } = Object(JSON.parse(line));
    if (outcome !== "free") continue;
    const name = `${method} ${prefix}${String(path).replace(/^https?:\/\/[^/]*/i, "") || "/"}`;
    decided.set(name, (decided.get(name) ?? 0) + 1);
  }
  return arrived.flatMap((each, index) =>
    each.flatMap(({ bytes }) =>
      cutRequests(bytes).requests.flatMap(({ method, target }) => {
        const name = `${method} ${target.split("?", 1)[0]}`;
        const left = (decided.get(name) ?? 0) - 1;
        decided.set(name, left);
        if (left >= 0) return [];
        return { index, flaw: { kind: "smuggle", detail: `${name} was never decided about` } };
      }),
    ),
  );
}
