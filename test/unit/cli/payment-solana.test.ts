/** What the command line shows of payments on Solana, whose names are base58: letter case is part of them. */
import { expect, test } from "vitest";
import { readPayer } from "../../../src/cli/arguments.ts";
import { toCsv, toJson, toPage, toTable } from "../../../src/cli/payments/payment-text.ts";
import { Tokens } from "../../../src/admin/payment-view.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { configOf } from "../app/config-of.ts";
import { exampleDetail } from "./example-view.ts";

const PAYER = "CmGgLQL36Y9ubtTsy2zmE46TAxwCBm66onZmPPhUWNqv";
const ACCOUNT = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";
const TRANSACTION = "5wHu1qwD7q4H3sR9".padEnd(88, "Zz");
const USDC = networkOf("solana").asset.address;

const payment = exampleDetail({
  key: `solana/${"ab".repeat(32)}`,
  network: "solana",
  asset: USDC,
  payer: PAYER,
  payTo: ACCOUNT,
  transaction: TRANSACTION,
  submission: {
    id: "1",
    account: ACCOUNT,
    accountNonce: 7,
    state: "CLOSED",
    transactions: [TRANSACTION],
  },
});

test("addresses and transactions are shown letter by letter, with a link to the transaction", () => {
  const page = toPage(payment, false);
  for (const name of [PAYER, ACCOUNT, TRANSACTION, USDC]) expect(page).toContain(name);
  expect(page).toMatch(new RegExp(`explorer +https://\\S+${TRANSACTION}`));
  expect(toCsv([payment])).toContain(TRANSACTION);
  expect(toJson(payment)).toContain(TRANSACTION);
  expect(toTable([payment], false)).toContain("ab".repeat(32));
});

test("an account of ours is shown without a nonce, which it has not", () => {
  expect(toPage(payment, false)).toMatch(new RegExp(`account +${ACCOUNT}\n`));
  const evm = exampleDetail({ submission: payment.submission });
  expect(toPage(evm, false)).toMatch(new RegExp(`account +${ACCOUNT}, nonce 7\n`));
});

test("a payer can be asked for", () => {
  expect(readPayer(PAYER)).toBe(PAYER);
});

test("a token is known by its exact mint, and on EVM in any letter case", () => {
  const tokens = new Tokens(
    configOf(`
facilitator: https://facilitator.example.com
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base]
unmatched: deny
routes: { GET /weather: $0.01 }
`),
  );
  expect(tokens.find("solana", USDC)?.symbol).toBe("USDC");
  expect(tokens.find("solana", USDC.toLowerCase())).toBeUndefined();
  const evm = networkOf("base").asset.address;
  expect(tokens.find("base", evm.toLowerCase())?.symbol).toBe("USDC");
});
