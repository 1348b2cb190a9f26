/** What the gateway's own routes sell, without a chain. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { ownSide } from "../../../src/app/own-routes.ts";
import { spendablePots } from "../../../src/ledger/ledger.ts";
import { networkOf, type NetworkName } from "../../../src/x402/network.ts";
import type { PotFill } from "../../../src/ledger/ledger.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { UNSTORED_SALE } from "../../support/sale.ts";

const PAYER = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const { engine, fills } = ownSide({ kind: "credits" }, "https://shop.example.com");

/** What a payment of five dollars is asked for with. */
function asked(network: NetworkName, asset = networkOf(network).asset.address) {
  const rest = { resource: "", description: "", mimeType: "", maxTimeoutSeconds: 60 };
  const terms = { scheme: "exact", network, asset, payTo: PAYER, maxAmountRequired: "5000000" };
  return { ...terms, ...rest } as const;
}

function filling(network: NetworkName, hasKey = true, asset?: string): PotFill {
  if (fills === undefined) throw new Error("a pack that fills nothing");
  return fills({ key: "one" as PaymentKey, payer: PAYER, hasKey, terms: asked(network, asset) });
}

describe("a payment for a pack fills", () => {
  it("the balance of its payer with what was asked for", () => {
    const name = PAYER.toLowerCase();
    expect(filling("base")).toEqual({ pot: `credits/evm/USDC/${name}`, amount: 5_000_000n });
    expect(filling("polygon").pot).toBe(filling("base").pot);
    expect(filling("base-sepolia").pot).toBe(`credits/evm-testnet/USDC/${name}`);
  });

  it("that of code on its own chain alone", () => {
    expect(filling("base", false).pot).toBe(`credits/evm/USDC/${PAYER.toLowerCase()}@base`);
  });

  it("nothing where it is in another token than credits are counted in", () => {
    const euro = "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD";
    expect(() => filling("avalanche", true, euro)).toThrow(TypeError);
  });
});

describe("an account may spend", () => {
  const account = { address: PAYER, network: "base" } as const;

  it("what its key has prepaid on all chains of its kind, each family for itself", () => {
    const pots = spendablePots({ ...account, hasKey: true });
    expect([...pots.values()].map(({ family }) => family).toSorted()).toEqual([
      "evm",
      "evm-testnet",
    ]);
    expect([...pots.keys()]).toContain(filling("polygon").pot);
    expect([...pots.keys()]).not.toContain(filling("base", false).pot);
  });

  it("what its code has prepaid on the chain on which it has signed, and no more", () => {
    const pots = spendablePots({ ...account, hasKey: false });
    expect([...pots.keys()]).toEqual([filling("base", false).pot]);
  });
});

describe("what answers there", () => {
  const request = (length: string): IncomingMessage => {
    const made = new IncomingMessage(new Socket());
    made.headers["content-length"] = length;
    return made;
  };

  it("takes no large body and no WebSocket, and says so before anybody pays", () => {
    expect(engine.refusal(request("65536"), null)).toBeNull();
    expect(engine.refusal(request("65537"), null)).toMatchObject({ status: 413, sent: false });
    const switching = { socket: new Socket(), address: "192.0.2.1" };
    expect(engine.refusal(request("0"), switching)).toMatchObject({ status: 502, sent: false });
  });

  it("answers nothing that was not paid for", async () => {
    const delivery = await engine.forward({
      request: request("0"),
      client: Object(null),
      target: "/.x402/credits",
      requestHeaders: [],
      responseSet: [],
      responseAdded: [],
      response: Object(null),
      sale: UNSTORED_SALE,
    });
    expect(delivery).toMatchObject({ kind: "unanswered", sent: false });
  });
});
