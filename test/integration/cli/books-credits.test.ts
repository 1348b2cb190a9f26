/** `coinslot books` of what buyers have prepaid: what was bought is what was used and what is left, or it says so. */
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { creditsPot } from "../../../src/ledger/pots.ts";
import { systemTime } from "../../../src/time/time.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { Site } from "../../support/serve.ts";
import { examplePayment, PAYER } from "../../unit/ledger/example-payment.ts";
import { SETTLEMENT, termsOf } from "../../unit/ledger/ledger-driver.ts";
import { runHere } from "./run-here.ts";

const POT = creditsPot(networkOf("base-sepolia"), PAYER);
const FILE = `upstream: http://127.0.0.1:9
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
routes:
  GET /weather: $0.01
unmatched: deny
`;

test("books tell what was prepaid, used and is left, and notice what does not fit", async () => {
  await using site = await Site.create();
  await site.write(FILE);
  const path = site.store.replace(/^sqlite:/, "");
  const ledger = await openSqliteLedger({ path, time: systemTime, life: "one" });
  const { key, request } = examplePayment(1);
  const fills = { pot: POT, amount: 10_000n };
  const terms = termsOf({ request }, { fills, route: "POST /.x402/credits" });
  await ledger.step(key, { kind: "claim", terms });
  await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
  const ask = { pot: POT, chunks: [], isHeld: false, base: 0n, first: 0n, wish: 0n };
  await ledger.pots.draw([{ ...ask, turn: 1, first: 4_000n }]);
  const uses = [{ route: "GET /weather", amount: 2_500n, count: 5 }];
  const chunks = [{ turn: 2, uses }];
  await ledger.pots.draw([{ ...ask, turn: 2, isHeld: true, base: 1_500n, chunks }]);

  const books = (...words: readonly string[]) => runHere(["books", site.file, ...words]);
  const { stdout } = await books();
  expect(stdout).toContain(
    "credits, USDC on evm-testnet: 0.01 bought = 0.0025 used + 0.0075 left (1 balances, 0.0015 of that in use)\n",
  );
  expect(stdout).toContain("USDC on evm-testnet: balanced\n");
  expect(stdout).toMatch(/^GET \/weather +credits +0\.0025 +USDC on evm-testnet +5/m);
  expect(stdout).toMatch(/^POST \/\.x402\/credits +credits +0\.01 +USDC on evm-testnet +1/m);
  const { credits } = JSON.parse((await books("--json")).stdout);
  expect(credits).toEqual([
    {
      family: "evm-testnet",
      token: "USDC",
      balances: 1,
      bought: "0.01",
      used: "0.0025",
      refunded: "0",
      left: "0.0075",
      leased: "0.0015",
      isBalanced: true,
    },
  ]);
  const right = JSON.parse((await books("--verify", "--json")).stdout);
  expect(right.verification.differences).toEqual([]);

  await ledger.close();
  // What somebody has done to the ledger since.
  using database = new DatabaseSync(path);
  database.prepare("UPDATE pots SET free = '9999'").run();
  expect((await books()).stdout).toContain("0.01 bought IS NOT 0.0025 used + 0.011499 left");
  const { code, stdout: told } = await books("--verify", "--json");
  expect(code).toBe(1);
  expect(JSON.parse(told).verification.differences).toEqual([
    {
      kind: "credits",
      name: "USDC",
      network: "evm-testnet",
      detail: "0.01 were bought, 0.0025 used, 0 paid back, and 0.011499 are left",
    },
  ]);
});
