/**
 * What a payer burns who presents one price many times at once: payments of ours in blocks that move no money,
 * and their gas. On nodes that show what is on its way, and on nodes that answer `pending` with the newest block.
 */
import { onTheWire } from "../../src/facilitator/wire-facilitator.ts";
import { startChain } from "../support/chain.ts";
import { startFacilitator, type RunningFacilitator } from "../support/facilitator.ts";
import { ourTransactions, type OurTransactions } from "../support/our-transactions.ts";
import { freshAccount, requirementsFor, signPayment } from "../support/payer.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import type { Chain } from "../support/chain.ts";
import type { FacilitatorRequest } from "../../src/x402/x402.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { sized } from "./size.ts";

const PRICE = 10_000n;
/** Longest that one payment may take, milliseconds. */
const PATIENCE_MS = 60_000;

interface Way {
  readonly payers: number;
  readonly each: number;
  readonly signers: number;
  readonly blind: boolean;
}

const ALL_WAYS: readonly Way[] = [
  { payers: 1, each: 40, signers: 1, blind: false },
  { payers: 1, each: 40, signers: 1, blind: true },
  { payers: 1, each: 40, signers: 2, blind: true },
  { payers: 20, each: 5, signers: 1, blind: true },
];
const WAYS = sized(ALL_WAYS, [{ payers: 1, each: 4, signers: 1, blind: true }]);

sayHead("payments of more than a payer has, all at once, a block each second", [
  coinslotVersion(),
  versionOf("@foundry-rs/anvil-linux-amd64"),
]);
const head = ["", "paid", "in blocks", "moved nothing", "gas", "gas burnt for each price paid"];
const rows: string[][] = [];
let most = 0;
for (const way of WAYS) {
  const { sold, cost, gasOfNothing } = await burn(way);
  const nothing = cost.carried - cost.moved;
  most = Math.max(most, nothing / Math.max(sold, 1));
  const node = way.blind ? "`pending` is `latest`" : "true `pending`";
  const title = `${way.payers} × ${way.each} payments, ${way.signers} account(s), ${node}`;
  const burnt = (Number(gasOfNothing) / Math.max(sold, 1)).toFixed(0);
  rows.push([title, `${sold}`, `${cost.carried}`, `${nothing}`, `${cost.gas}`, burnt]);
}
for (const line of columns([head, ...rows])) say(`  ${line}`);
sayAim({ text: "settlements that moved nothing, for each price paid", value: most, atMost: 3 });

async function burn(way: Way): Promise<{
  readonly sold: number;
  readonly cost: OurTransactions;
  readonly gasOfNothing: bigint;
}> {
  await using chain = await startChain({ blockTime: 1 });
  await using proxy = await startRpcProxy(chain.rpcUrl, { blind: way.blind });
  await using seller = await startFacilitator({
    chain,
    rpcUrl: proxy.url,
    signers: way.signers,
  });
  const requests = await prepare(chain, way);
  const sold = (await Promise.all(requests.map((request) => buy(seller, request)))).filter(Boolean);
  const cost = await ourTransactions(chain, seller.signers);
  const gasOfNothing = (cost.gas * BigInt(cost.carried - cost.moved)) / BigInt(cost.carried || 1);
  return { sold: sold.length, cost, gasOfNothing };
}

/** Each payer has one price. */
async function prepare(
  chain: Chain,
  { payers, each }: Way,
): Promise<readonly FacilitatorRequest[]> {
  const requirements = requirementsFor(chain.network.name, {
    payTo: freshAccount().address,
    maxTimeoutSeconds: 300,
  });
  const accounts = Array.from({ length: payers }, freshAccount);
  await Promise.all(accounts.map(({ address }) => chain.fund(address, PRICE)));
  const all = accounts.flatMap(({ account }) => Array.from({ length: each }, () => account));
  return Promise.all(
    all.map(async (account) => {
      const paymentPayload = await signPayment({ account, requirements });
      return { paymentPayload, paymentRequirements: requirements };
    }),
  );
}

/** Verified, then settled, as a gateway does; whether it was paid. */
async function buy(
  { facilitator }: RunningFacilitator,
  request: FacilitatorRequest,
): Promise<boolean> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const { isValid } = await onTheWire(facilitator).verify(request, signal);
  if (!isValid) return false;
  const { success } = await onTheWire(facilitator).settle(request, { signal });
  return success;
}
