import type { Refusal } from "../../../../src/x402/result.ts";
import { extensionsOf } from "../../../../src/x402/bazaar.ts";
import { PAYMENT_FLOW, requirementsV2 } from "../../../../src/x402/version-2.ts";
import { Payment } from "../../../../src/payments/facilitator.ts";
import { describe, expect, test } from "vitest";
import { choose, type Choosing } from "../../../../src/payments/sale/choice.ts";
import { ALL_OPEN } from "../../../../src/payments/sale/offers.ts";
import type { FacilitatorRequest, PaymentPayload } from "../../../../src/x402/x402.ts";
import { examplePayment } from "../../ledger/example-payment.ts";
import {
  FEE_PAYER,
  MINT,
  NETWORK,
  OTHER_FEE_PAYER,
  OTHER_MINT,
  addressOf,
  solanaPayment,
  solanaRequirements,
} from "./solana-payment.ts";
import { States } from "../../gateway/states.ts";
import { Told } from "../../gateway/told.ts";

type Judge = (request: FacilitatorRequest) => Refusal | undefined;

const { extra: _, ...bare } = solanaRequirements();

function chosen(
  payment: PaymentPayload,
  accepts = [solanaRequirements()],
  {
    judge = () => undefined,
    feePayers = told(),
    networks = ALL_OPEN,
  }: { judge?: Judge; feePayers?: Told; networks?: Choosing["networks"] } = {},
) {
  const facilitator = {
    read: (request: FacilitatorRequest) => Payment.read(request),
    precheck: ({ request }: Payment) => judge(request),
  };
  return choose({ payment, accepts }, { facilitator, feePayers, networks });
}

const strict: Judge = ({ paymentRequirements: { asset, maxAmountRequired } }) => ({
  code: "invalid_payload",
  detail: `not ${maxAmountRequired} of ${asset}`,
});

const unasked: Judge = () => {
  throw new Error("asked");
};

const told = () => new Told({ [NETWORK]: FEE_PAYER });

describe("of several offers on one network", () => {
  const usdc = solanaRequirements();
  const dearer = solanaRequirements({ maxAmountRequired: "20000" });
  const other = solanaRequirements({ asset: OTHER_MINT });
  const offers = [dearer, other, usdc];

  test.each([
    ["mint and amount", {}, usdc],
    ["another amount", { amount: 20_000n }, dearer],
    ["another mint", { mint: OTHER_MINT }, other],
    [
      "a mint and an amount that no offer has together",
      { mint: OTHER_MINT, amount: 20_000n },
      dearer,
    ],
    ["nothing that is known", { mint: addressOf(9), amount: 1n }, dearer],
  ])("a transfer with %s means the one that it fits, else the first", (_, transfer, expected) => {
    const choice = chosen(solanaPayment(transfer), offers);
    expect(choice).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: expected } },
    });
  });

  test("what the facilitator refuses at once is not meant, and its first word counts", () => {
    const picky: Judge = (request) => {
      const { asset, maxAmountRequired } = request.paymentRequirements;
      return asset === MINT && maxAmountRequired === "10000" ? strict(request) : undefined;
    };
    expect(chosen(solanaPayment(), offers, { judge: picky })).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: dearer } },
    });
    expect(chosen(solanaPayment(), offers, { judge: strict })).toMatchObject({
      ok: false,
      error: { code: "invalid_payload", detail: `not 10000 of ${MINT}` },
    });
  });

  test("an amount that no Solana token can have fits nothing, and breaks nothing", () => {
    const absurd = solanaRequirements({ maxAmountRequired: (2n ** 64n).toString() });
    expect(chosen(solanaPayment(), [absurd, usdc])).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: { maxAmountRequired: "10000" } } },
    });
  });
});

describe("the fee payer of what is chosen", () => {
  test("is the payment's own, where that one was told before", () => {
    const feePayers = told();
    feePayers.tell(NETWORK, OTHER_FEE_PAYER);
    const accepts = [solanaRequirements({ extra: { feePayer: OTHER_FEE_PAYER, memo: "m" } })];
    const choice = chosen(solanaPayment({ feePayer: FEE_PAYER }), accepts, { feePayers });
    expect(choice).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: { extra: { feePayer: FEE_PAYER, memo: "m" } } } },
    });
    // The offers belong to every request.
    expect(accepts[0]?.extra?.["feePayer"]).toBe(OTHER_FEE_PAYER);
  });

  test("is the payment's own even while nobody is told one", () => {
    const feePayers = told();
    feePayers.tell(NETWORK, undefined);
    const choice = chosen(solanaPayment(), [bare], { feePayers });
    expect(choice).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: { extra: { feePayer: FEE_PAYER } } } },
    });
  });

  test("stays the one that is told, where nobody knows the payment's: the facilitator refuses it", () => {
    const choice = chosen(solanaPayment({ feePayer: addressOf(9) }));
    expect(choice).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: { extra: { feePayer: FEE_PAYER } } } },
    });
  });

  test("must be known on the payment's network", () => {
    const feePayers = new Told({ solana: OTHER_FEE_PAYER, [NETWORK]: FEE_PAYER });
    const choice = chosen(solanaPayment({ feePayer: OTHER_FEE_PAYER }), undefined, { feePayers });
    expect(choice).toMatchObject({
      ok: true,
      value: { request: { paymentRequirements: { extra: { feePayer: FEE_PAYER } } } },
    });
  });

  test("is missing where nobody was ever told: that is no fault of the payment", () => {
    const choice = chosen(solanaPayment(), [bare], { feePayers: new Told() });
    expect(choice).toMatchObject({
      ok: false,
      error: {
        code: "unexpected_verify_error",
        detail: expect.stringContaining(`who pays the network fee on ${NETWORK}`),
      },
    });
  });
});

test("a transaction that cannot be read is refused before anybody is asked", () => {
  const payment = { ...solanaPayment(), payload: { transaction: "AAAA" } };
  expect(chosen(payment, undefined, { judge: unasked })).toMatchObject({
    ok: false,
    error: { code: "invalid_payload" },
  });
});

test("EVM offers are left as they are, and never meant by a payment on Solana", () => {
  const { paymentPayload, paymentRequirements } = examplePayment(1).request;
  const accepts = [solanaRequirements(), paymentRequirements];
  expect(chosen(paymentPayload, accepts)).toMatchObject({
    ok: true,
    value: { request: { paymentRequirements } },
  });
  expect(chosen(solanaPayment(), [paymentRequirements])).toMatchObject({
    ok: false,
    error: { code: "invalid_network" },
  });
  expect(chosen({ ...solanaPayment(), scheme: "upto" }, accepts)).toMatchObject({
    ok: false,
    error: { code: "invalid_scheme" },
  });
});

test("what a stranger calls scheme and network is repeated without what a terminal obeys", () => {
  const odd = "\u009b31m\u202e\u0000";
  for (const name of ["scheme", "network"]) {
    const payment = { ...solanaPayment(), [name]: `x${odd}` };
    const refused = chosen(payment);
    expect(refused).toMatchObject({
      ok: false,
      error: {
        detail: expect.stringContaining(`${name} "x\ufffd31m\ufffd\ufffd" is not accepted`),
      },
    });
  }
});

test("an extension that is repeated as it was told is the same, whatever of it JSON has no word for", () => {
  const { paymentPayload, paymentRequirements } = examplePayment(1).request;
  const example = {
    max: { default: Infinity },
    some: { enum: [Number.NaN] },
    zero: { default: -0 },
  };
  const input = { type: "http", method: "GET", discoverable: true, queryParams: example };
  const offer = { ...paymentRequirements, outputSchema: { input } };
  const extensions = JSON.parse(JSON.stringify(extensionsOf(offer)));
  const payment = { ...paymentPayload, x402Version: 2, extensions };
  const facilitator = {
    read: (request: FacilitatorRequest) => Payment.read(request),
    precheck: () => undefined,
  };
  const accepted = requirementsV2(offer, PAYMENT_FLOW);
  const choosing = { facilitator, feePayers: told(), networks: ALL_OPEN };
  expect(choose({ payment, accepted, accepts: [offer] }, choosing)).toMatchObject({ ok: true });
  extensions.bazaar.info.input.queryParams.max = 1;
  expect(choose({ payment, accepted, accepts: [offer] }, choosing)).toMatchObject({
    error: { code: "invalid_payload", detail: expect.stringContaining("extensions") },
  });
});

test("a payment on a closed network is not its buyer's fault, and what is wrong with it is told first", () => {
  const networks = new States({ [NETWORK]: "closed" });
  const payment = solanaPayment();
  expect(chosen(payment, undefined, { networks })).toMatchObject({
    error: {
      code: "unexpected_verify_error",
      detail: expect.stringContaining("not taken at the moment, and nothing was charged"),
    },
  });
  expect(chosen(payment, undefined, { networks, judge: strict })).toMatchObject({
    error: { code: "invalid_payload" },
  });
  networks.tell(NETWORK, "unsteady");
  expect(chosen(payment, undefined, { networks }).ok).toBe(true);
});
