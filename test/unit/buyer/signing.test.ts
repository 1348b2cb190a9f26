/** What is signed on Solana for either version, where the seller tells a recent block: no node is asked. */
import { VersionedTransaction } from "@solana/web3.js";
import { expect, test } from "vitest";
import { freshKey, openPurse } from "../../../src/buyer/buyer-key.ts";
import { readQuote } from "../../../src/buyer/offer.ts";
import { signPayment } from "../../../src/buyer/signing.ts";
import { readTerms } from "../../../src/buyer/terms.ts";
import { encodeHeaderJson } from "../../../src/x402/header.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { requirementsV2 } from "../../../src/x402/version-2.ts";
import { requirementsFor } from "../../support/payer.ts";
import { freshSolanaKey } from "../../support/solana-key.ts";

const BLOCKHASH = freshSolanaKey().address;
const secret = Buffer.from(JSON.parse(freshKey("solana").text)).toString("hex");
const NOWHERE = "http://127.0.0.1:1";

async function sign(version: 1 | 2, more: object) {
  const offer = {
    ...requirementsFor("base-sepolia", { payTo: freshSolanaKey().address }),
    network: "solana-devnet",
    asset: networkOf("solana-devnet").asset.address,
    extra: { feePayer: freshSolanaKey().address, recentBlockhash: BLOCKHASH, ...more },
  };
  const newer = { x402Version: 2, resource: { url: "" }, accepts: [requirementsV2(offer)] };
  const quote = readQuote(
    {
      header: encodeHeaderJson(newer),
      body: Buffer.from(JSON.stringify({ x402Version: 1, error: "", accepts: [offer] })),
    },
    version,
  );
  if (!quote.ok) throw new Error(quote.error);
  const [first] = quote.value.offers;
  const terms = first && readTerms(first, []);
  if (!terms?.ok) throw new Error(terms?.error);
  const purse = openPurse("solana", secret);
  const options = { purse, terms: terms.value, quote: quote.value, rpcUrl: NOWHERE };
  const { payment } = await signPayment(options);
  const { payload } = JSON.parse(Buffer.from(payment.value, "base64").toString());
  const { message } = VersionedTransaction.deserialize(Buffer.from(payload.transaction, "base64"));
  return {
    blockhash: message.recentBlockhash,
    data: message.compiledInstructions.map((each) => Buffer.from(each.data).toString()),
  };
}

test("version 1 has a limit, a price and the transfer, and a memo where the seller wants one", async () => {
  const { blockhash, data } = await sign(1, {});
  expect([blockhash, data.length]).toEqual([BLOCKHASH, 3]);
  expect((await sign(1, { memo: "order 7" })).data[3]).toBe("order 7");
});

test("version 2 always has a memo: what the seller wants, else what tells equal payments apart", async () => {
  const [one, other] = [await sign(2, {}), await sign(2, {})];
  expect([one.blockhash, one.data.length]).toEqual([BLOCKHASH, 4]);
  expect(one.data[3]).toMatch(/^[0-9a-f]{32}$/);
  expect(other.data[3]).not.toBe(one.data[3]);
  expect((await sign(2, { memo: "order 7" })).data[3]).toBe("order 7");
});

test("a block that is none is read from the chain", async () => {
  await expect(sign(2, { recentBlockhash: "none" })).rejects.toThrow(/127\.0\.0\.1/);
});
