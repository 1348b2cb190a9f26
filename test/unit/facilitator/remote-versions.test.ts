/** In which version a payment goes to a facilitator elsewhere, and how its answer is read. */
import { describe, expect, test } from "vitest";
import type { RemoteOptions } from "../../../src/facilitator/remote.ts";
import { extensionsOf } from "../../../src/x402/bazaar.ts";
import { codeV2 } from "../../../src/x402/version-2.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { faultOf } from "../../support/fault-of.ts";
import type { FacilitatorCall, FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { encodeSettlementHeader } from "../../../src/x402/header.ts";
import { exampleRequest, PAYER, TRANSACTION } from "../payments/settlement/example-request.ts";
import { failed, soon, stage, success, type Stage } from "./remote-stage.ts";

const V1 = { x402Version: 1, scheme: "exact", network: "base-sepolia" };
const V2 = { x402Version: 2, scheme: "exact", network: "eip155:84532" };

/** The payment of the example as it came in that version. */
function requestIn(version: number, members: object = {}): FacilitatorRequest {
  const { paymentPayload, paymentRequirements } = exampleRequest;
  return {
    paymentPayload: { ...paymentPayload, ...members, x402Version: version },
    paymentRequirements,
  };
}

const ok: FacilitatorReply = { status: 200, body: { ...success, isValid: true } };
const versionOf = ({ body }: FacilitatorCall): number => JSON.parse(body).x402Version;

/** Lists those kinds, and takes those versions only. */
function facilitator(
  kinds: readonly object[] | undefined,
  takes: readonly number[],
  otherwise: FacilitatorReply,
  options: Partial<RemoteOptions> = {},
): Promise<Stage> {
  return stage((call) => {
    if (call.url !== "/supported") return takes.includes(versionOf(call)) ? ok : otherwise;
    return kinds === undefined ? { status: 404 } : { status: 200, body: { kinds } };
  }, options);
}

const sent = ({ scripted }: Stage): readonly string[] =>
  scripted.calls.map((call) =>
    call.url === "/supported" ? call.url : `${call.url} ${versionOf(call)}`,
  );

const unread: FacilitatorReply = { status: 400, body: { error: "Invalid request" } };
const broken: FacilitatorReply = { status: 500, body: { error: "no such version" } };
const verifyWord: FacilitatorReply = {
  status: 200,
  body: { isValid: false, invalidReason: "invalid_x402_version" },
};
const settleWord: FacilitatorReply = {
  status: 200,
  body: { ...failed, errorReason: "invalid_x402_version" },
};

describe("what is sent", () => {
  test("of version 2 is one way to pay in both of its places, and our resource", async () => {
    const opened = await facilitator([V2], [2], unread);
    await opened.remote.settle(requestIn(2), { signal: soon() });
    const accepted = {
      scheme: "exact",
      network: "eip155:84532",
      amount: "10000",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      payTo: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
      maxTimeoutSeconds: 60,
      extra: { paymentFlow: "upfront" },
    };
    expect(JSON.parse(opened.scripted.calls.at(-1)?.body ?? "")).toEqual({
      x402Version: 2,
      paymentPayload: {
        x402Version: 2,
        accepted,
        payload: exampleRequest.paymentPayload.payload,
        resource: { url: "https://shop.example/weather", description: "weather" },
      },
      paymentRequirements: accepted,
    });
  });

  test("of version 2 to one of version 1 is what version 1 has", async () => {
    const opened = await facilitator([V1], [1], unread);
    const extensions = { bazaar: { info: {} } };
    await opened.remote.settle(requestIn(2, { extensions }), { signal: soon() });
    const { paymentPayload, paymentRequirements } = exampleRequest;
    expect(JSON.parse(opened.scripted.calls.at(-1)?.body ?? "")).toEqual({
      x402Version: 1,
      paymentPayload,
      paymentRequirements: { mimeType: "", ...paymentRequirements },
    });
  });

  test.each([1, 2])(
    "in version 2 of extensions is ours, and the rest its client's (%i)",
    async (came) => {
      const input = { type: "http", method: "GET", discoverable: true };
      const id = { info: { id: "an-id-of-the-client" } };
      const said = { bazaar: { info: "poison" }, "payment-identifier": id };
      const opened = await facilitator([V2], [2], unread);
      await opened.remote.supported(soon());
      const asked = requestIn(came, came === 2 ? { extensions: said } : {});
      const outputSchema = { input };
      const paymentRequirements = { ...asked.paymentRequirements, outputSchema };
      const request = { ...asked, paymentRequirements };
      await opened.remote.verify(request, soon());
      const { paymentPayload } = JSON.parse(opened.scripted.calls.at(-1)?.body ?? "");
      const kept = came === 2 ? { "payment-identifier": id } : {};
      expect(paymentPayload.extensions).toEqual({ ...kept, ...extensionsOf({ outputSchema }) });
    },
  );

  test("of a client for a catalogue is nothing where we have nothing", async () => {
    const opened = await facilitator([V2], [2], unread);
    await opened.remote.verify(requestIn(2, { extensions: { bazaar: { info: {} } } }), soon());
    const { paymentPayload } = JSON.parse(opened.scripted.calls.at(-1)?.body ?? "");
    expect(paymentPayload).not.toHaveProperty("extensions");
  });
});

describe("the version", () => {
  test.each<[string, readonly object[] | undefined, number, readonly string[]]>([
    ["both are listed", [V1, V2], 1, ["/verify 1", "/settle 1"]],
    ["both are listed", [V1, V2], 2, ["/supported", "/verify 2", "/settle 2"]],
    ["the other is listed", [V1], 2, ["/supported", "/verify 1", "/settle 1"]],
    ["neither is listed", [], 2, ["/supported", "/verify 2", "/settle 2"]],
    ["nothing is said", undefined, 2, ["/supported", "/verify 2", "/settle 2"]],
    ["nobody has asked", [V2], 1, ["/verify 1", "/settle 1"]],
  ])("where %s, of a payment of version %#", async (_, kinds, came, wanted) => {
    const opened = await facilitator(kinds, [1, 2], unread);
    await opened.remote.verify(requestIn(came), soon());
    await opened.remote.settle(requestIn(came), { signal: soon() });
    expect(sent(opened)).toEqual(wanted);
  });

  test.each<[string, readonly object[] | undefined, FacilitatorReply, number]>([
    ["says so", undefined, verifyWord, 1],
    ["says so", undefined, verifyWord, 2],
    ["says so against its list", [V1, V2], verifyWord, 1],
    ["cannot read it", undefined, unread, 1],
    ["cannot read it", [], unread, 2],
    ["breaks over it and lists the other", [V2], broken, 1],
  ])("that a facilitator does not take (it %s) is tried once", async (_, kinds, reply, came) => {
    const takes = 3 - came;
    const opened = await facilitator(kinds, [takes], reply);
    const verdict = await opened.remote.verify(requestIn(came), soon());
    expect(verdict).toEqual({ isValid: true, payer: PAYER });
    const tries = sent(opened).filter((each) => each !== "/supported");
    expect(tries).toEqual([`/verify ${came}`, `/verify ${takes}`]);
    const before = opened.scripted.calls.length;
    await opened.remote.verify(requestIn(came), soon());
    await opened.remote.settle(requestIn(came), { signal: soon() });
    expect(sent(opened).slice(before)).toEqual([`/verify ${takes}`, `/settle ${takes}`]);
  });

  test.each<[string, readonly object[], FacilitatorReply]>([
    ["a version that is listed", [V1], unread],
    ["a caller that it does not know", [V2], { status: 401, body: {} }],
    ["trouble of its own", [V1, V2], broken],
    ["trouble of its own, and lists nothing", [], broken],
  ])("is not doubted over %s", async (_, kinds, reply) => {
    const opened = await facilitator(kinds, [2], reply);
    if (reply === unread) await opened.remote.supported(soon());
    expect(await faultOf(opened.remote.verify(requestIn(1), soon()))).toMatchObject({
      kind: "unavailable",
    });
    expect(opened.scripted.count("/verify")).toBe(1);
  });

  test("of a settlement changes only after the word that nothing moved", async () => {
    const told = await facilitator([V1, V2], [1], settleWord);
    expect(await told.remote.settle(requestIn(2), { signal: soon(), idempotencyKey: "a" })).toEqual(
      success,
    );
    expect(sent(told)).toEqual(["/supported", "/settle 2", "/settle 1"]);
    const keys = told.scripted.calls.slice(1).map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toEqual(["a", "a"]);
    await told.remote.settle(requestIn(2), { signal: soon() });
    expect(sent(told).at(-1)).toBe("/settle 1");
    expect(told.scripted.count("/settle")).toBe(3);
  });

  test.each<[string, FacilitatorReply]>([
    ["cannot be read", unread],
    ["broke", broken],
    [
      "names a transaction",
      {
        status: 200,
        body: { ...failed, errorReason: "invalid_x402_version", transaction: TRANSACTION },
      },
    ],
  ])("of a settlement that %s stays", async (_, reply) => {
    const opened = await facilitator([V1, V2], [1], reply);
    await opened.remote.settle(requestIn(2), { signal: soon() }).catch(() => undefined);
    expect(sent(opened)).toEqual(["/supported", "/settle 2"]);
  });

  test("that nobody takes is told, and what was refused first is", async () => {
    const opened = await facilitator([V1, V2], [], verifyWord);
    expect(await opened.remote.verify(requestIn(1), soon())).toMatchObject({
      isValid: false,
      invalidReason: "invalid_x402_version",
    });
    const other = await facilitator(undefined, [], unread);
    expect(await faultOf(other.remote.verify(requestIn(1), soon()))).toMatchObject({
      message: expect.stringContaining("status 400"),
    });
  });
});

describe("an answer of version 2", () => {
  test.each([
    [
      "invalid_exact_evm_payload_authorization_value",
      codeV2("invalid_exact_evm_payload_authorization_value"),
    ],
    ["insufficient_funds", "invalid_exact_evm_insufficient_balance"],
    ["invalid_transaction_state", "invalid_exact_evm_nonce_already_used"],
    ["invalid_exact_evm_payload_signature", "invalid_exact_evm_signature"],
  ])("says %s as %s", async (code, said) => {
    const opened = await stage({
      status: 200,
      body: { ...failed, isValid: false, invalidReason: said, errorReason: said },
    });
    const { remote } = opened;
    expect(await remote.verify(requestIn(1), soon())).toMatchObject({ invalidReason: code });
    expect(await remote.settle(requestIn(1), { signal: soon() })).toMatchObject({
      errorReason: code,
    });
  });

  test("says the rest in its message", async () => {
    const body = {
      ...failed,
      isValid: false,
      invalidReason: "insufficient_funds",
      invalidMessage: "It has a cent.",
      errorReason: "insufficient_funds",
      errorMessage: "It had a cent.",
    };
    const { remote } = await stage({ status: 200, body });
    expect(await remote.verify(requestIn(2), soon())).toMatchObject({ detail: "It has a cent." });
    expect(await remote.settle(requestIn(2), { signal: soon() })).toMatchObject({
      detail: "It had a cent.",
      network: "base-sepolia",
    });
  });

  test("that says very much is cut short, so that the answer's head is one that buyers read", async () => {
    const words = "\u00e9".repeat(20_000);
    const body = {
      ...failed,
      isValid: false,
      invalidReason: "invalid_transaction_state",
      invalidMessage: words,
      errorReason: "invalid_transaction_state",
      errorMessage: words,
    };
    const { remote } = await stage({ status: 200, body });
    const verdict = await remote.verify(requestIn(2), soon());
    expect(verdict).toMatchObject({ detail: expect.stringMatching(/^\u00e9{200}; /) });
    const settlement = await remote.settle(requestIn(2), { signal: soon() });
    expect(settlement).toMatchObject({ detail: words.slice(0, 200) });
    expect(encodeSettlementHeader(settlement, 2).length).toBeLessThan(2_000);
  });

  test("that is pending is unknown, and tells what was sent", async () => {
    const body = { ...failed, errorReason: "settlement_pending", transaction: TRANSACTION };
    const { remote } = await stage({ status: 200, body });
    const fault = await faultOf(remote.settle(requestIn(2), { signal: soon() }));
    expect(fault).toMatchObject({ kind: "unknown", transaction: TRANSACTION });
  });

  test("names fee payers and final refusals by CAIP-2", async () => {
    const feePayer = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g";
    const kind = { ...V2, network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", extra: { feePayer } };
    const body = { kinds: [kind], finalRefusals: ["eip155:84532"] };
    const { remote } = await stage({ status: 200, body });
    await remote.supported(soon());
    expect(remote.feePayers.current("solana-devnet")).toBe(feePayer);
    expect(remote.word.isFinal("base-sepolia")).toBe(true);
    expect(remote.word.isFinal("base")).toBe(false);
  });
});
