import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { caip2Of } from "../../../src/x402/version-2.ts";
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import type { FacilitatorRouter } from "../../../src/facilitator/facilitator-router.ts";
import { faultOf } from "../../support/fault-of.ts";
import {
  FEE_PAYER,
  kindOf,
  NETWORK,
  OTHER_FEE_PAYER,
  PAYER,
  addressOf,
  solanaPayment,
  solanaRequest,
} from "../payments/sale/solana-payment.ts";
import { handing, meshOver, nobody, scripted, type Scripted } from "./mesh-stage.ts";
import { soon } from "./remote-stage.ts";

const TRANSACTION = "5".repeat(88);

/** A facilitator that takes every payment, with that account if it tells one. */
async function paying(feePayer?: string): Promise<Scripted> {
  const kinds = feePayer === undefined ? [] : [kindOf(feePayer)];
  const settlement = { success: true, transaction: TRANSACTION, network: NETWORK, payer: PAYER };
  return scripted({ status: 200, body: { kinds, isValid: true, ...settlement } });
}

const payments = ({ calls }: Scripted) => calls.filter(({ method }) => method === "POST").length;
const asked = (...all: readonly Scripted[]) => all.map(payments);

/** A router whose facilitators have been asked once what they support. */
async function told(...all: readonly { readonly url: string }[]): Promise<FacilitatorRouter> {
  const { router } = meshOver(all);
  await router.supported(soon());
  return router;
}

const verify = (router: FacilitatorRouter, feePayer: string) =>
  onTheWire(router).verify(solanaRequest(feePayer), soon());

const precheck = (router: FacilitatorRouter, request: FacilitatorRequest) => {
  const read = router.read(request);
  return read.ok ? router.precheck(read.value) : read.error;
};

describe("a payment on Solana", () => {
  test("is verified and settled by the facilitator whose account it names, and by no other", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const router = await told(first, second);
    await verify(router, OTHER_FEE_PAYER);
    expect(asked(first, second)).toEqual([0, 1]);
    const handed = handing();
    const answer = await onTheWire(router).settle(solanaRequest(OTHER_FEE_PAYER), handed);
    expect(answer).toMatchObject({ success: true, transaction: TRANSACTION });
    expect(handed.names).toEqual([second.url]);
    expect(asked(first, second)).toEqual([0, 2]);
    expect(precheck(router, solanaRequest(OTHER_FEE_PAYER))).toBeUndefined();
  });

  test("goes to who told its account before, also when another account is told now", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const router = await told(first, second);
    second.reply = (await paying(addressOf(9))).reply;
    await router.supported(soon());
    await verify(router, OTHER_FEE_PAYER);
    await verify(router, addressOf(9));
    expect(asked(first, second)).toEqual([0, 2]);
  });

  test("is asked of those who tell no account where nobody is known to have its own", async () => {
    const [first, silent] = [await paying(FEE_PAYER), await paying()];
    const router = await told(first, silent);
    await verify(router, OTHER_FEE_PAYER);
    expect(asked(first, silent)).toEqual([0, 1]);
    await verify(router, FEE_PAYER);
    expect(asked(first, silent)).toEqual([1, 1]);
  });

  test("is asked of everybody in order as long as nobody has told anything", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const { router } = meshOver([first, second]);
    await verify(router, OTHER_FEE_PAYER);
    expect(asked(first, second)).toEqual([1, 0]);
  });

  test("that nobody can settle is asked of nobody, and no money moves", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const router = await told(first, second);
    const stranger = addressOf(9);
    const sentence = `no facilitator pays network fees on ${NETWORK} from ${stranger}`;
    const verifying = await faultOf(verify(router, stranger));
    expect(verifying).toMatchObject({
      kind: "unavailable",
      code: "unexpected_verify_error",
      message: sentence,
    });
    const handed = handing();
    const settling = await faultOf(onTheWire(router).settle(solanaRequest(stranger), handed));
    expect(settling).toMatchObject({
      kind: "unavailable",
      code: "unexpected_settle_error",
      message: sentence,
    });
    expect([...asked(first, second), handed.names]).toEqual([0, 0, []]);
    expect(precheck(router, solanaRequest(stranger))).toMatchObject({
      code: "invalid_payload",
      detail: expect.stringContaining(sentence),
    });
  });

  test("that was handed over before is asked for there, whatever accounts are told by now", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const router = await told(first, second);
    const options = handing({ askedBefore: first.url });
    const answer = await onTheWire(router).settle(solanaRequest(OTHER_FEE_PAYER), options);
    expect(answer).toMatchObject({ success: true });
    expect(asked(first, second)).toEqual([1, 0]);
  });

  test("that cannot be read is refused before anybody is asked", async () => {
    const first = await paying(FEE_PAYER);
    const router = await told(first);
    const { paymentRequirements } = solanaRequest();
    const paymentPayload = { ...solanaPayment(), payload: { transaction: "AAAA" } };
    const verdict = await onTheWire(router).verify({ paymentPayload, paymentRequirements }, soon());
    expect(verdict).toMatchObject({ isValid: false, invalidReason: "invalid_payload" });
    expect(asked(first)).toEqual([0]);
  });

  test("is nobody's where there is no facilitator at all", async () => {
    const { router } = meshOver([]);
    expect(precheck(router, solanaRequest())).toBeUndefined();
    expect((await faultOf(verify(router, FEE_PAYER))).message).toContain("no facilitator serves");
  });
});

describe("the account that buyers are told", () => {
  test("is that of the first facilitator that tells one", async () => {
    const [silent, second, third] = [
      await paying(),
      await paying(FEE_PAYER),
      await paying(OTHER_FEE_PAYER),
    ];
    const router = await told(await nobody(), silent, second, third);
    expect(router.feePayer(NETWORK)).toBe(FEE_PAYER);
    expect(router.feePayer("solana")).toBeUndefined();
    const known = [FEE_PAYER, OTHER_FEE_PAYER, addressOf(9)].map((address) =>
      router.hasFeePayer(NETWORK, address),
    );
    expect(known).toEqual([true, true, false]);
  });

  test("is another facilitator's while the first one fails, or its own where all fail", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const router = await told(first, second);
    for (const each of [first, second]) each.reply = { status: 500 };
    for (let count = 0; count < 3; count += 1) await faultOf(verify(router, FEE_PAYER));
    expect(router.feePayer(NETWORK)).toBe(OTHER_FEE_PAYER);
    for (let count = 0; count < 3; count += 1) await faultOf(verify(router, OTHER_FEE_PAYER));
    expect(router.feePayer(NETWORK)).toBe(FEE_PAYER);
  });

  test("is nobody's of those whose settlements there could not be counted", async () => {
    const facilitator = await paying(FEE_PAYER);
    const { router } = meshOver([facilitator], { remote: { confirm: "receipt" } });
    await router.supported(soon());
    expect(router.feePayer(NETWORK)).toBeUndefined();
  });

  test("is not a remote facilitator's on a network that is settled here", async () => {
    const facilitator = await paying(FEE_PAYER);
    const { router: other } = meshOver([]);
    const embedded = Object.assign(other, { networks: [NETWORK] });
    const { router } = meshOver([facilitator], { embedded });
    await router.supported(soon());
    expect(router.feePayer(NETWORK)).toBeUndefined();
    expect(router.hasFeePayer(NETWORK, FEE_PAYER)).toBe(false);
  });
});

test("a kind whose extra is null is passed on without it", async () => {
  const kind = { x402Version: 1, scheme: "exact", network: "base", extra: null };
  const facilitator = await scripted({ status: 200, body: { kinds: [kind, kindOf(FEE_PAYER)] } });
  const { kinds } = await meshOver([facilitator]).router.supported(soon());
  const { extra: _, ...plain } = kind;
  expect(kinds).toEqual([
    plain,
    kindOf(FEE_PAYER),
    { ...plain, x402Version: 2, network: "eip155:8453" },
    { ...kindOf(FEE_PAYER, caip2Of(kindOf(FEE_PAYER).network)), x402Version: 2 },
  ]);
});
