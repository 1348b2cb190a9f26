import { describe, expect, onTestFinished, test } from "vitest";
import { FacilitatorMesh } from "../../../src/facilitator/mesh.ts";
import { faultOf } from "../../support/fault-of.ts";
import {
  startScriptedFacilitator,
  type FacilitatorReply,
  type ScriptedFacilitator,
} from "../../support/scripted-facilitator.ts";
import { exampleRequest, PAYER } from "./example-request.ts";
import { failed, openRemote, soon, success } from "./remote-stage.ts";

/** Answers may be changed in the middle of a test. */
interface Scripted extends ScriptedFacilitator {
  reply: FacilitatorReply;
}

async function scripted(reply: FacilitatorReply): Promise<Scripted> {
  const opened = await startScriptedFacilitator(() => facilitator.reply);
  const facilitator: Scripted = { ...opened, reply };
  onTestFinished(() => opened.close());
  return facilitator;
}

function meshOf(...facilitators: readonly { readonly url: string }[]): FacilitatorMesh {
  return new FacilitatorMesh(
    undefined,
    facilitators.map(({ url }) => openRemote(url).remote),
  );
}

/** Where nobody listens. */
async function nobody(): Promise<{ readonly url: string }> {
  const closed = await scripted({ status: 200 });
  await closed.close();
  return { url: closed.url };
}

const verify = (mesh: FacilitatorMesh) => mesh.verify(exampleRequest, soon());
const settle = (mesh: FacilitatorMesh, idempotencyKey?: string) =>
  mesh.settle(exampleRequest, {
    signal: soon(),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  });

const valid = { status: 200, body: { isValid: true, payer: PAYER } };
const settled = { status: 200, body: success };
const broken: FacilitatorReply = { raw: (response) => void response.destroy() };

const kindsOf = (...networks: string[]) => ({
  status: 200,
  body: { kinds: networks.map((network) => ({ x402Version: 1, scheme: "exact", network })) },
});

/** The first was down as the second lost its answer; then the first is there again. */
async function lostAtTheSecond() {
  const second = await scripted(broken);
  const down = await nobody();
  const mesh = meshOf(down, second);
  expect(await faultOf(settle(mesh, "key"))).toMatchObject({ kind: "unknown" });
  const first = await startScriptedFacilitator(() => settled, Number(new URL(down.url).port));
  onTestFinished(() => first.close());
  return { mesh, first, second };
}

describe("a verification", () => {
  test.each<[string, FacilitatorReply]>([
    ["breaks the connection", broken],
    ["answers 500", { status: 500 }],
    ["answers 429", { status: 429 }],
    ["answers nonsense", { status: 200, body: "<html>" }],
    [
      "could not judge",
      { status: 500, body: { isValid: false, invalidReason: "unexpected_verify_error" } },
    ],
  ])("moves on from a facilitator that %s", async (_, reply) => {
    const [first, second] = [await scripted(reply), await scripted(valid)];
    expect(await verify(meshOf(first, second))).toEqual(valid.body);
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  test("moves on from where nobody listens", async () => {
    expect(await verify(meshOf(await nobody(), await scripted(valid)))).toEqual(valid.body);
  });

  test("asks one facilitator where it answers, in the configured order", async () => {
    const refusal = { isValid: false, invalidReason: "insufficient_funds", payer: PAYER };
    const first = await scripted({ status: 200, body: refusal });
    const second = await scripted(valid);
    expect(await verify(meshOf(first, second))).toMatchObject(refusal);
    expect(second.calls).toEqual([]);
  });

  test("fails with the last fault when none can be asked", async () => {
    const last = await scripted({ status: 503 });
    const fault = await faultOf(verify(meshOf(await nobody(), last)));
    expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_verify_error" });
    expect(fault.message).toContain("status 503");
  });
});

describe("a settlement", () => {
  test("moves on from where nobody listens, and from nobody else", async () => {
    const [second, third] = [await scripted(settled), await scripted(settled)];
    expect(await settle(meshOf(await nobody(), second, third))).toEqual(success);
    expect([second.calls.length, third.calls.length]).toEqual([1, 0]);
  });

  test.each<[string, string, FacilitatorReply]>([
    ["breaks the connection", "unknown", broken],
    ["answers 500", "unknown", { status: 500 }],
    ["tells no transaction", "unknown", { status: 200, body: { success: true } }],
    ["refuses it unread", "unavailable", { status: 429 }],
  ])("stays with a facilitator that %s (%s)", async (_, kind, reply) => {
    const [first, second] = [await scripted(reply), await scripted(settled)];
    const fault = await faultOf(settle(meshOf(first, second)));
    expect(fault).toMatchObject({ kind, code: "unexpected_settle_error" });
    expect(second.calls).toEqual([]);
  });

  test("that is refused is asked of nobody else", async () => {
    const body = { ...failed, errorReason: "insufficient_funds" };
    const [first, second] = [await scripted({ status: 200, body }), await scripted(settled)];
    expect(await settle(meshOf(first, second))).toMatchObject(body);
    expect(second.calls).toEqual([]);
  });

  test("fails as unreachable where nobody listens anywhere", async () => {
    const fault = await faultOf(settle(meshOf(await nobody(), await nobody())));
    expect(fault).toMatchObject({ kind: "unreachable", code: "unexpected_settle_error" });
  });

  test("without facilitators is a fault of its own", async () => {
    const fault = await faultOf(settle(meshOf()));
    expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_settle_error" });
    expect(await faultOf(verify(meshOf()))).toMatchObject({ code: "unexpected_verify_error" });
  });
});

describe("a settlement of unknown outcome", () => {
  test("is asked for again where it was left", async () => {
    const { mesh, first, second } = await lostAtTheSecond();
    second.reply = settled;
    expect(await settle(mesh, "key")).toEqual(success);
    expect([first.calls.length, second.calls.length]).toEqual([0, 2]);
  });

  test("stays unknown while that facilitator cannot say more", async () => {
    const { mesh, first, second } = await lostAtTheSecond();
    second.reply = { status: 429 };
    expect(await faultOf(settle(mesh, "key"))).toMatchObject({ kind: "unknown" });
    await second.close();
    expect(await faultOf(settle(mesh, "key"))).toMatchObject({ kind: "unknown" });
    expect(first.calls).toEqual([]);
  });

  test("binds no other payment, and this one no longer than until its answer", async () => {
    const { mesh, first, second } = await lostAtTheSecond();
    expect(await settle(mesh, "other")).toEqual(success);
    expect(await settle(mesh)).toEqual(success);
    expect(first.calls.length).toBe(2);
    second.reply = settled;
    await settle(mesh, "key");
    await settle(mesh, "key");
    expect([first.calls.length, second.calls.length]).toEqual([3, 2]);
  });
});

describe("the supported kinds", () => {
  test("are those of all facilitators, once each, in the protocol's order", async () => {
    const first = await scripted(kindsOf("eip155:8453", "polygon", "base", "solana"));
    const second = await scripted(kindsOf("avalanche", "base", "base-sepolia"));
    const { kinds } = await meshOf(first, second).supported(soon());
    expect(kinds.map(({ network }) => network)).toEqual([
      "base-sepolia",
      "base",
      "avalanche",
      "solana",
      "polygon",
      "eip155:8453",
    ]);
  });

  test("of networks settled elsewhere are remote", async () => {
    const mesh = meshOf(await scripted(kindsOf("base")));
    expect(mesh.isRemote("base")).toBe(true);
    expect(mesh.precheck(exampleRequest)).toBeUndefined();
  });
});
