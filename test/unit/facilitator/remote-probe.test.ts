/** Whether a facilitator elsewhere is there, and knows us, over real HTTP. */
import { describe, expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import type { FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { openRemote, settle, soon, stage, verify } from "./remote-stage.ts";

const HEADERS = { Authorization: "Bearer old" };
const SUPPORTED = { status: 200, body: { kinds: [], closed: ["eip155:8453"] } } as const;
const UNKNOWN = { status: 401, body: "" } as const;

/** What it answers to whoever asks what it takes, and to payments. */
async function open(
  told: { supported: FacilitatorReply; verify: FacilitatorReply },
  headers: Readonly<Record<string, string>> = {},
) {
  let doubts = 0;
  const opened = await stage(({ url }) => (url === "/supported" ? told.supported : told.verify), {
    headers,
    onDoubt: () => void (doubts += 1),
  });
  const probe = () => opened.remote.probe(soon());
  return { ...opened, probe, doubts: () => doubts };
}

const unauthorized = [{ level: "error", about: "unauthorized" }];

describe("a look at a facilitator elsewhere", () => {
  test("takes in what it says of itself, and asks nothing more where no key of ours is needed", async () => {
    const { probe, scripted, remote } = await open({ supported: SUPPORTED, verify: UNKNOWN });
    expect(await probe()).toEqual([]);
    expect(scripted.calls.map(({ url }) => url)).toEqual(["/supported"]);
    expect([remote.word.isClosed("base"), remote.word.isClosed("polygon")]).toEqual([true, false]);
  });

  test.each([401, 403])("finds that it does not know us by a %i", async (status) => {
    const { probe } = await open({ supported: { status, body: "" }, verify: UNKNOWN }, HEADERS);
    expect(await probe()).toMatchObject(unauthorized);
  });

  test("shows it a payment that is none where what it takes is for everybody, once", async () => {
    const told: { supported: FacilitatorReply; verify: FacilitatorReply } = {
      supported: SUPPORTED,
      verify: UNKNOWN,
    };
    const { probe, scripted } = await open(told, HEADERS);
    expect(await probe()).toMatchObject(unauthorized);
    expect(await probe()).toMatchObject(unauthorized);
    // Whatever it makes of that, it is for us.
    told.verify = { status: 500, body: "" };
    expect(await probe()).toEqual([]);
    expect(await probe()).toEqual([]);
    expect(scripted.count("/verify")).toBe(3);
    const shown = scripted.calls.find(({ url }) => url === "/verify");
    expect([shown?.body, shown?.headers.authorization]).toEqual([
      '{"x402Version":1}',
      "Bearer old",
    ]);
  });

  test("finds what a payment was told that it did not judge for want of a key", async () => {
    const told = { supported: SUPPORTED, verify: UNKNOWN };
    const opened = await open(told);
    expect(await opened.probe()).toEqual([]);
    expect(await faultOf(verify(opened))).toMatchObject({ kind: "unavailable" });
    expect(opened.doubts()).toBe(1);
    expect(await opened.probe()).toMatchObject(unauthorized);
  });

  test.each([500, 502, 503])("is in vain where it answers %i", async (status) => {
    const { probe } = await open({ supported: { status, body: "" }, verify: UNKNOWN });
    await expect(probe()).rejects.toThrow(String(status));
  });

  test("is in vain where it is gone, and not where it has no such page", async () => {
    const { remote } = openRemote("http://127.0.0.1:1");
    await expect(remote.probe(soon())).rejects.toThrow();
    const { probe } = await open({ supported: { status: 404, body: "" }, verify: UNKNOWN });
    expect(await probe()).toEqual([]);
  });
});

test("it is doubted for what it does not judge and not settle, and not for one odd payment", async () => {
  const told: { supported: FacilitatorReply; verify: FacilitatorReply } = {
    supported: SUPPORTED,
    verify: { status: 400, body: "" },
  };
  const opened = await open(told);
  await faultOf(verify(opened));
  expect(opened.doubts()).toBe(0);
  told.verify = { raw: (response) => response.destroy() };
  await faultOf(settle(opened));
  await faultOf(verify(opened));
  expect(opened.doubts()).toBe(2);
  told.verify = { status: 200, body: { isValid: false, invalidReason: "insufficient_funds" } };
  await verify(opened);
  expect(opened.doubts()).toBe(2);
});
