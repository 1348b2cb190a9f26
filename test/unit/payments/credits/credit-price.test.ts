/** From which of an account's pots a request may be paid, and how much of each. */
import { expect, test } from "vitest";
import { creditsPot } from "../../../../src/ledger/pots.ts";
import { CreditPrice } from "../../../../src/payments/credits/credit-price.ts";
import { networkOf, type NetworkName } from "../../../../src/x402/network.ts";

const address = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
const offerOf = (network: NetworkName, amount: bigint) => {
  return { network, asset: networkOf(network).asset, amount };
};

test("a key spends on all networks of a family what it has prepaid there, by the least that is asked", () => {
  const price = new CreditPrice([offerOf("base", 20n), offerOf("polygon", 10n)]);
  const pot = creditsPot(networkOf("avalanche"), address);
  const account = { address, network: "avalanche", hasKey: true } as const;
  expect(price.drawsOf(account)).toEqual([
    { pot, amount: 10n, told: "0.00001 USDC", network: "polygon" },
  ]);
});

test("what test networks give away buys nothing on others, and each family is one balance", () => {
  const price = new CreditPrice([
    offerOf("base", 20n),
    offerOf("base-sepolia", 30n),
    offerOf("solana", 40n),
  ]);
  const account = { address, network: "base", hasKey: true } as const;
  expect(price.drawsOf(account).map(({ pot, amount }) => [pot, amount])).toEqual([
    [creditsPot(networkOf("base"), address), 20n],
    [creditsPot(networkOf("base-sepolia"), address), 30n],
  ]);
});

test("code spends on its own chain what code has prepaid there, and nothing of a key's, nor of other chains", () => {
  const price = new CreditPrice([offerOf("base", 20n), offerOf("polygon", 10n)]);
  const account = { address, network: "base", hasKey: false } as const;
  const pot = creditsPot(networkOf("base"), address, "base");
  expect(price.drawsOf(account)).toEqual([
    { pot, amount: 20n, told: "0.00002 USDC", network: "base" },
  ]);
  expect(pot).not.toBe(creditsPot(networkOf("base"), address));
  expect(pot).not.toBe(creditsPot(networkOf("polygon"), address, "polygon"));
});

test("a balance is in each network's own token, and pays for no other", () => {
  const euro = { address: "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42" };
  const price = new CreditPrice([{ network: "base", asset: euro, amount: 10n }]);
  expect(price.drawsOf({ address, network: "base", hasKey: true })).toEqual([]);
});
