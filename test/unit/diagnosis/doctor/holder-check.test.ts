/** Tokens that members hold, and what is said of those that do not answer as such. */
import { expect, test } from "vitest";
import { checkHolders } from "../../../../src/diagnosis/doctor/holder-check.ts";
import { RpcRefusal, type Rpc } from "../../../../src/mechanism/rpc.ts";
import type { HolderTerms } from "../../../../src/x402/holding.ts";

const TOKEN = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const TERMS: HolderTerms = {
  network: "base",
  token: TOKEN,
  least: 2_500_000n,
  decimals: 6,
  symbol: null,
  forMs: 1_000,
};
const never = new AbortController().signal;
const word = (value: number): string => `0x${value.toString(16).padStart(64, "0")}`;
const refused = (): never => {
  throw new RpcRefusal("eth_call", { code: 3, message: "execution reverted", data: "0x" });
};

function found(
  balance: () => string,
  decimals: () => string,
  network: "base" | "polygon" = "base",
) {
  const rpc: Rpc = {
    host: "node",
    call: async (_method, params) => {
      const { data } = Object(params[0]);
      return String(data).startsWith("0x70a08231") ? balance() : decimals();
    },
    close: async () => undefined,
  };
  const members = { groups: {}, holders: { rich: TERMS }, areScreened: false, files: [] };
  return checkHolders({ members }, network, { rpc, signal: never });
}

test("a token that answers is told with what is to be held of it; others are of other networks", async () => {
  const message = `holds 2.5 of ${TOKEN} on base; the token answers`;
  const right = { status: "ok", subject: "base members rich", message };
  expect(
    await found(
      () => word(0),
      () => word(6),
    ),
  ).toMatchObject([right]);
  // As an ERC-721 does.
  expect(await found(() => word(0), refused)).toMatchObject([right]);
  expect(
    await found(
      () => word(0),
      () => word(6),
      "polygon",
    ),
  ).toEqual([]);
});

test("what does not answer balanceOf, or has other decimals, is wrong", async () => {
  const nothing = { status: "fail", message: expect.stringContaining("does not answer balanceOf") };
  expect(
    await found(
      () => "0x",
      () => "0x",
    ),
  ).toMatchObject([nothing]);
  expect(await found(refused, () => word(6))).toMatchObject([nothing]);
  expect(
    await found(
      () => word(0),
      () => word(18),
    ),
  ).toMatchObject([
    { status: "fail", message: expect.stringContaining("has 18 decimals, and not 6") },
  ]);
});
