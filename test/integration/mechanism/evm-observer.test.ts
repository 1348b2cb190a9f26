import type { Hex } from "viem";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import {
  createEvmObserver,
  type EvmCheckedAuthorization,
  type EvmObserverOptions,
} from "../../../src/mechanism/evm/evm.ts";
import { transferCall } from "../../../src/mechanism/evm/token.ts";
import type { Observer, Standing } from "../../../src/mechanism/mechanism.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { cancelAuthorization } from "../../support/cancellation.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, signPayment, type FreshAccount } from "../../support/payer.ts";
import { never, openMechanism, payFor, soon, unixNow } from "./settling.ts";

let chain: Chain;
let payer: FreshAccount;
let payee: FreshAccount;
let observer: Observer<EvmCheckedAuthorization>;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  [payer, payee] = [freshAccount(), freshAccount()];
  await chain.fund(payer.address, 30_000n);
  observer = observe();
});

function observe(members: Partial<EvmObserverOptions> = {}) {
  const opened = createEvmObserver({
    network: chain.network,
    assets: [chain.network.asset],
    rpcUrls: [chain.rpcUrl],
    clock: unixNow,
    ...members,
  });
  onTestFinished(() => opened.close());
  return opened;
}

const ANY = { claimed: undefined, after: null };

async function authorize(overrides: { validBefore?: string } = {}) {
  const paymentRequirements = payFor(payee);
  const { account } = payer;
  const requirements = paymentRequirements;
  const paymentPayload = await signPayment({ account, requirements, overrides });
  const request: FacilitatorRequest = { paymentPayload, paymentRequirements };
  const parsed = observer.parse(request);
  if (!parsed.ok) throw new Error(parsed.error.detail);
  return parsed.value;
}

function submit({ words, signature, proven }: EvmCheckedAuthorization): Promise<Hex> {
  return chain.submit(chain.asset, `0x${transferCall(words, signature, proven)}`);
}

const reconcile = (authorization: EvmCheckedAuthorization, claimed?: string, by = observer) =>
  by.reconcile(authorization, { claimed, after: null }, soon());

/** Where a chain stands that has a word on the payment. */
async function standingOf(asked: Promise<Standing | null>): Promise<Standing> {
  const standing = await asked;
  if (standing === null) throw new Error("no word on it");
  return standing;
}

describe("a payment that others settle", () => {
  test("is confirmed with the transaction that they claim", async () => {
    const authorization = await authorize();
    const transaction = await submit(authorization);
    expect(await reconcile(authorization, transaction)).toMatchObject({
      kind: "confirmed",
      transaction,
    });
  });

  test("is found without a claim, and with a wrong one", async () => {
    const [authorization, other] = [await authorize(), await authorize()];
    const transaction = await submit(authorization);
    const claimed = await submit(other);
    expect(await reconcile(authorization)).toMatchObject({ kind: "confirmed", transaction });
    expect(await reconcile(authorization, claimed)).toMatchObject({
      kind: "confirmed",
      transaction,
    });
    const nowhere = `0x${"0d".repeat(32)}`;
    expect(await reconcile(authorization, nowhere)).toMatchObject({
      kind: "confirmed",
      transaction,
    });
  });

  test("is not what was on the chain before its hand-over, whoever claims it", async () => {
    const authorization = await authorize();
    const before = await standingOf(observer.standing(authorization, soon()));
    expect(before.used).toBeNull();
    const transaction = await submit(authorization);
    const after = await standingOf(observer.standing(authorization, soon()));
    expect(after).toEqual({
      head: before.head + 1,
      used: {
        code: "invalid_transaction_state",
        detail: expect.stringMatching(/^the authorization's nonce is used or cancelled/),
      },
    });
    for (const claimed of [transaction, undefined]) {
      const late = { claimed, after: after.head };
      expect(await observer.reconcile(authorization, late, soon())).toEqual({
        kind: "unknown",
        detail: expect.stringContaining("before anybody was asked"),
      });
      const inTime = { claimed, after: before.head };
      expect(await observer.reconcile(authorization, inTime, soon())).toMatchObject({
        kind: "confirmed",
        transaction,
      });
    }
  });

  test("is unknown while it is not used, whatever is claimed", async () => {
    const [authorization, other] = [await authorize(), await authorize()];
    const detail = "the authorization is not used yet";
    const unknown = { kind: "unknown", detail, isUnused: true };
    expect(await reconcile(authorization)).toEqual(unknown);
    expect(await reconcile(authorization, await submit(other))).toEqual(unknown);
  });

  test("waits for as many blocks as are asked for", async () => {
    const careful = observe({ confirmations: 3 });
    const authorization = await authorize();
    const transaction = await submit(authorization);
    for (const claimed of [transaction, undefined]) {
      expect(await reconcile(authorization, claimed, careful)).toEqual({
        kind: "unknown",
        detail: "in a block, with 1 of 3 confirmations",
      });
    }
    await chain.mine(2);
    const confirmed = { kind: "confirmed", transaction };
    expect(await reconcile(authorization, undefined, careful)).toMatchObject(confirmed);
  });

  test("has failed when the payer cancelled it", async () => {
    const authorization = await authorize();
    const nonce = authorization.nonce as Hex;
    await cancelAuthorization(chain, { authorizer: payer.address, signer: payer.account, nonce });
    expect(await reconcile(authorization)).toMatchObject({
      kind: "failed",
      refusal: { detail: "the payer cancelled the authorization" },
      retriable: false,
    });
  });

  test("has failed when the chain is well past it, and not before", async () => {
    const authorization = await authorize({ validBefore: String(unixNow() + 5) });
    expect(await reconcile(authorization)).toMatchObject({ kind: "unknown" });
    await chain.setNextBlockTimestamp(unixNow() + 60);
    await chain.mine();
    expect(await reconcile(authorization)).toMatchObject({
      kind: "failed",
      refusal: { detail: "the authorization expired unused" },
    });
  });

  test("is said by a mechanism just as well", async () => {
    const evm = openMechanism(chain, freshAccount().privateKey);
    const authorization = await authorize({ validBefore: String(unixNow() + 3_600) });
    const transaction = await submit(authorization);
    expect(await evm.reconcile(authorization, ANY, never)).toMatchObject({
      kind: "confirmed",
      transaction,
    });
  });
});

describe("an observer", () => {
  test("of other tokens sees a payment all the same, as does a mechanism", async () => {
    const asset = { ...chain.network.asset, address: freshAccount().address };
    const strange = observe({ assets: [asset] });
    const mechanism = openMechanism(chain, freshAccount().privateKey, { assets: [asset] });
    const paymentRequirements = payFor(payee);
    const { account } = payer;
    const requirements = paymentRequirements;
    // The chain's time may have been moved on.
    const overrides = { validBefore: "99999999999" };
    const paymentPayload = await signPayment({ account, requirements, overrides });
    const request: FacilitatorRequest = { paymentPayload, paymentRequirements };
    const known = observer.parse(request);
    if (!known.ok) throw new Error(known.error.detail);
    const transaction = await submit(known.value);
    for (const by of [strange, mechanism]) {
      const parsed = by.parse(request);
      if (!parsed.ok) throw new Error(parsed.error.detail);
      expect(await by.reconcile(parsed.value, ANY, soon())).toMatchObject({
        kind: "confirmed",
        transaction,
      });
    }
    expect(mechanism.check(request, unixNow()).ok).toBe(false);
  });

  test("reads a stored request without judging it", async () => {
    const authorization = await authorize({ validBefore: "1" });
    expect(authorization).toMatchObject({ validBefore: 1n, from: payer.address.toLowerCase() });
  });

  test("says nothing about an authorization from another chain", async () => {
    const other = await startChain({ chainId: 31_337 });
    onTestFinished(() => other.stop());
    const misled = observe({ rpcUrls: [other.rpcUrl] });
    const authorization = await authorize({ validBefore: "1" });
    for (let index = 0; index < 2; index += 1) {
      await expect(reconcile(authorization, undefined, misled)).rejects.toMatchObject({
        code: "CHAIN_ANSWER",
      });
    }
  });

  test("needs an endpoint", () => {
    expect(() => observe({ rpcUrls: [] })).toThrow(TypeError);
  });
});
