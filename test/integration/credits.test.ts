/** Balances that are bought: a pack is a route of the gateway's own, sold as any other. */
import { DatabaseSync } from "node:sqlite";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { present, PURSE, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";

const closing = new AsyncDisposableStack();
const CREDITS = "credits: { packs: [$0.05, $1] }";
/** What the first pack costs, atomic units. */
const FIRST = 50_000n;
const PLACE = "/.x402/credits/0.05";

let chain: Chain;
let gateway: RunningGateway;
let storePath: string;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = mkdtempSync(join(tmpdir(), "coinslot-credits-"));
  closing.defer(() => rmSync(folder, { recursive: true }));
  storePath = join(folder, "ledger.db");
  gateway = closing.use(await startGateway({ chain, storePath, more: CREDITS }));
});

afterAll(() => closing.disposeAsync());

/** All that is in pots, by their names. */
function pots(path = storePath): Readonly<Record<string, unknown>> {
  using database = new DatabaseSync(path, { readOnly: true });
  const rows = database.prepare("SELECT name AS pot, free FROM pots").all();
  return Object.fromEntries(rows.map(({ pot, free }) => [String(pot), free]));
}

const potOf = ({ address }: Pick<FreshAccount, "address">): string =>
  `credits/evm-testnet/USDC/${address.toLowerCase()}`;

describe("a pack", () => {
  it.each(Object.entries(evmClients))(
    "is bought by %s, and is in the balance",
    async (_, client) => {
      const buyer = await richBuyer(chain);
      const served = gateway.upstream.length;
      for (const body of [undefined, {}]) {
        const { status, body: told, receipt } = await client.buy(gateway.url + PLACE, buyer, body);
        expect(status).toBe(200);
        expect(told).toMatchObject({
          bought: { token: "USDC", amount: "50000", decimals: 6, dollars: "0.05" },
          payer: buyer.address,
          network: "base-sepolia",
          transaction: receipt["transaction"],
          balance: `${PUBLIC_URL}/.x402/balance`,
          session: `${PUBLIC_URL}/.well-known/x402/sign-in`,
        });
      }
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 2n * FIRST);
      expect(pots()[potOf(buyer)]).toBe(String(2n * FIRST));
      expect(gateway.upstream.length).toBe(served);
    },
  );

  it("costs what its address says, the first one at the address above, too", async () => {
    const amounts = await Promise.all(
      ["", "/0.05", "/1"].map(async (path) => {
        const { maxAmountRequired } = await quote(`${gateway.url}/.x402/credits${path}`);
        return maxAmountRequired;
      }),
    );
    expect(amounts).toEqual(["50000", "50000", "1000000"]);
    expect((await fetch(`${gateway.url}/.x402/credits/2`)).status).toBe(404);
  });

  it("is told again to whoever sends its payment again, and is in the balance once", async () => {
    const buyer = await richBuyer(chain);
    const url = gateway.url + PLACE;
    const header = await sign(buyer, url);
    const first = await present(url, header);
    const second = await present(url, header);
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(second.text).toBe(first.text);
    expect(pots()[potOf(buyer)]).toBe(String(FIRST));
  });
});
