import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import type { FacilitatorMesh } from "../../../src/facilitator/mesh.ts";
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
} from "../gateway/payment/solana-payment.ts";
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

/** A mesh whose facilitators have been asked once what they support. */
async function told(...all: readonly { readonly url: string }[]): Promise<FacilitatorMesh> {
  const { mesh } = meshOver(all);
  await mesh.supported(soon());
  return mesh;
}

const verify = (mesh: FacilitatorMesh, feePayer: string) =>
  onTheWire(mesh).verify(solanaRequest(feePayer), soon());

const precheck = (mesh: FacilitatorMesh, request: FacilitatorRequest) => {
  const read = mesh.read(request);
  return read.ok ? mesh.precheck(read.value) : read.error;
};

describe("a payment on Solana", () => {
  test("is verified and settled by the facilitator whose account it names, and by no other", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const mesh = await told(first, second);
    await verify(mesh, OTHER_FEE_PAYER);
    expect(asked(first, second)).toEqual([0, 1]);
    const handed = handing();
    const answer = await onTheWire(mesh).settle(solanaRequest(OTHER_FEE_PAYER), handed);
    expect(answer).toMatchObject({ success: true, transaction: TRANSACTION });
    expect(handed.names).toEqual([second.url]);
    expect(asked(first, second)).toEqual([0, 2]);
    expect(precheck(mesh, solanaRequest(OTHER_FEE_PAYER))).toBeUndefined();
  });

  test("goes to who told its account before, also when another account is told now", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const mesh = await told(first, second);
    second.reply = (await paying(addressOf(9))).reply;
    await mesh.supported(soon());
    await verify(mesh, OTHER_FEE_PAYER);
    await verify(mesh, addressOf(9));
    expect(asked(first, second)).toEqual([0, 2]);
  });

  test("is asked of those who tell no account where nobody is known to have its own", async () => {
    const [first, silent] = [await paying(FEE_PAYER), await paying()];
    const mesh = await told(first, silent);
    await verify(mesh, OTHER_FEE_PAYER);
    expect(asked(first, silent)).toEqual([0, 1]);
    await verify(mesh, FEE_PAYER);
    expect(asked(first, silent)).toEqual([1, 1]);
  });

  test("is asked of everybody in order as long as nobody has told anything", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const { mesh } = meshOver([first, second]);
    await verify(mesh, OTHER_FEE_PAYER);
    expect(asked(first, second)).toEqual([1, 0]);
  });

  test("that nobody can settle is asked of nobody, and no money moves", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const mesh = await told(first, second);
    const stranger = addressOf(9);
    const sentence = `no facilitator pays network fees on ${NETWORK} from ${stranger}`;
    const verifying = await faultOf(verify(mesh, stranger));
    expect(verifying).toMatchObject({
      kind: "unavailable",
      code: "unexpected_verify_error",
      message: sentence,
    });
    const handed = handing();
    const settling = await faultOf(onTheWire(mesh).settle(solanaRequest(stranger), handed));
    expect(settling).toMatchObject({
      kind: "unavailable",
      code: "unexpected_settle_error",
      message: sentence,
    });
    expect([...asked(first, second), handed.names]).toEqual([0, 0, []]);
    expect(precheck(mesh, solanaRequest(stranger))).toMatchObject({
      code: "invalid_payload",
      detail: expect.stringContaining(sentence),
    });
  });

  test("that was handed over before is asked for there, whatever accounts are told by now", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const mesh = await told(first, second);
    const options = handing({ askedBefore: first.url });
    const answer = await onTheWire(mesh).settle(solanaRequest(OTHER_FEE_PAYER), options);
    expect(answer).toMatchObject({ success: true });
    expect(asked(first, second)).toEqual([1, 0]);
  });

  test("that cannot be read is refused before anybody is asked", async () => {
    const first = await paying(FEE_PAYER);
    const mesh = await told(first);
    const { paymentRequirements } = solanaRequest();
    const paymentPayload = { ...solanaPayment(), payload: { transaction: "AAAA" } };
    const verdict = await onTheWire(mesh).verify({ paymentPayload, paymentRequirements }, soon());
    expect(verdict).toMatchObject({ isValid: false, invalidReason: "invalid_payload" });
    expect(asked(first)).toEqual([0]);
  });

  test("is nobody's where there is no facilitator at all", async () => {
    const { mesh } = meshOver([]);
    expect(precheck(mesh, solanaRequest())).toBeUndefined();
    expect((await faultOf(verify(mesh, FEE_PAYER))).message).toContain("no facilitator serves");
  });
});

describe("the account that buyers are told", () => {
  test("is that of the first facilitator that tells one", async () => {
    const [silent, second, third] = [
      await paying(),
      await paying(FEE_PAYER),
      await paying(OTHER_FEE_PAYER),
    ];
    const mesh = await told(await nobody(), silent, second, third);
    expect(mesh.feePayer(NETWORK)).toBe(FEE_PAYER);
    expect(mesh.feePayer("solana")).toBeUndefined();
    const known = [FEE_PAYER, OTHER_FEE_PAYER, addressOf(9)].map((address) =>
      mesh.hasFeePayer(NETWORK, address),
    );
    expect(known).toEqual([true, true, false]);
  });

  test("is another facilitator's while the first one fails, or its own where all fail", async () => {
    const [first, second] = [await paying(FEE_PAYER), await paying(OTHER_FEE_PAYER)];
    const mesh = await told(first, second);
    for (const each of [first, second]) each.reply = { status: 500 };
    for (let count = 0; count < 3; count += 1) await faultOf(verify(mesh, FEE_PAYER));
    expect(mesh.feePayer(NETWORK)).toBe(OTHER_FEE_PAYER);
    for (let count = 0; count < 3; count += 1) await faultOf(verify(mesh, OTHER_FEE_PAYER));
    expect(mesh.feePayer(NETWORK)).toBe(FEE_PAYER);
  });

  test("is nobody's of those whose settlements there could not be counted", async () => {
    const facilitator = await paying(FEE_PAYER);
    const { mesh } = meshOver([facilitator], { remote: { confirm: "receipt" } });
    await mesh.supported(soon());
    expect(mesh.feePayer(NETWORK)).toBeUndefined();
  });

  test("is not a remote facilitator's on a network that is settled here", async () => {
    const facilitator = await paying(FEE_PAYER);
    const { mesh: other } = meshOver([]);
    const embedded = Object.assign(other, { networks: [NETWORK] });
    const { mesh } = meshOver([facilitator], { embedded });
    await mesh.supported(soon());
    expect(mesh.feePayer(NETWORK)).toBeUndefined();
    expect(mesh.hasFeePayer(NETWORK, FEE_PAYER)).toBe(false);
  });
});

test("a kind whose extra is null is passed on without it", async () => {
  const kind = { x402Version: 1, scheme: "exact", network: "base", extra: null };
  const facilitator = await scripted({ status: 200, body: { kinds: [kind, kindOf(FEE_PAYER)] } });
  const { kinds } = await meshOver([facilitator]).mesh.supported(soon());
  const { extra: _, ...plain } = kind;
  expect(kinds).toEqual([plain, kindOf(FEE_PAYER)]);
});
