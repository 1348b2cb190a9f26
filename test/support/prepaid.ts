/** Accounts that have prepaid, without a purchase on any chain: in a ledger that no gateway has opened yet. */
import { DatabaseSync } from "node:sqlite";
import { creditsPot } from "../../src/ledger/pots.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../src/time/time.ts";
import { networkOf, type NetworkName } from "../../src/x402/network.ts";
import type { FacilitatorRequest, PaymentPayload } from "../../src/x402/x402.ts";
import { examplePayment } from "../unit/ledger/example-payment.ts";
import { termsOf } from "../unit/ledger/ledger-driver.ts";

/**
 * @param amounts by address, in the smallest unit of the network's own token
 * @param had by address: the key of a route whose goods have been bought and delivered besides
 */
export async function prepay(
  path: string,
  amounts: Readonly<Record<string, bigint>>,
  had: Readonly<Record<string, string>> = {},
): Promise<void> {
  const network: NetworkName = "base-sepolia";
  const ledger = await openSqliteLedger({ path, time: systemTime, life: "the packs" });
  for (const [number, [address, amount]] of Object.entries(amounts).entries()) {
    const { key, request } = examplePayment(number + 1);
    const paid = { ...request, paymentPayload: paidBy(request, address) };
    const fills = { pot: creditsPot(networkOf(network), address), amount };
    const terms = termsOf({ request: paid }, { fills, route: "POST /.x402/credits/1" });
    await ledger.step(key, { kind: "claim", terms });
    const settlement = { transaction: `0x${number}`, network, payer: address };
    await ledger.step(key, { kind: "settled", settlement });
    const route = had[address];
    if (route === undefined) continue;
    const bought = examplePayment(1_000 + number);
    const other = { ...bought.request, paymentPayload: paidBy(bought.request, address) };
    await ledger.step(bought.key, { kind: "claim", terms: termsOf({ request: other }, { route }) });
    await ledger.step(bought.key, { kind: "settled", settlement });
    await ledger.step(bought.key, { kind: "delivering" });
    await ledger.step(bought.key, { kind: "delivered" });
  }
  await ledger.close();
}

function paidBy({ paymentPayload }: FacilitatorRequest, from: string): PaymentPayload {
  const { authorization } = Object(paymentPayload.payload);
  const payload = { ...paymentPayload.payload, authorization: { ...authorization, from } };
  return { ...paymentPayload, payload };
}

/** What is in a balance, as it is written by now; of a ledger that a gateway has open, too. */
export function balanceIn(path: string, address: string): bigint {
  const database = new DatabaseSync(path, { readOnly: true });
  const pot = creditsPot(networkOf("base-sepolia"), address);
  const row = database.prepare("SELECT free, leased FROM pots WHERE name = ?").get(pot);
  database.close();
  return row === undefined ? 0n : BigInt(String(row["free"])) + BigInt(String(row["leased"]));
}
