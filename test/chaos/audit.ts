/** After a run: every purchase against the chain, the goods against the money, the nonces against both. */
import { encodeFunctionData, parseAbi, toEventSelector, type Address, type Hex } from "viem";
import { MAX_DELIVERY_ATTEMPTS, MAX_RENEWALS } from "../../src/ledger/ledger.ts";
import type { Chain } from "../support/chain.ts";
import type { Payment, Purchase } from "./customer.ts";
import type { Shop } from "./shop.ts";

const abi = parseAbi([
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
]);
const AUTHORIZATION_USED = toEventSelector("AuthorizationUsed(address,bytes32)");
/** Upstream executions that one payment may cause, beside those that a death of ours has cut. */
const MAX_EXECUTIONS = MAX_DELIVERY_ATTEMPTS * (1 + MAX_RENEWALS);

export interface AuditOptions {
  readonly chain: Chain;
  readonly shop: Shop;
  readonly purchases: readonly Purchase[];
  readonly payee: Address;
  readonly priceAtomic: bigint;
  /** Accounts of ours, with the next nonce that the ledger would give. */
  readonly accounts: readonly { readonly address: Address; readonly stored: number | undefined }[];
  /** Of gateways and workers, each of which may have cut an attempt that is made again. */
  readonly deaths: number;
  /** Where the thief's requests come from, and the items of the good answers that he got. */
  readonly thief: string;
  readonly loot: readonly string[];
  /** Authorization nonces of the payments that the ledger lists as paid and not delivered. */
  readonly listedUndelivered: ReadonlySet<string>;
  /** By authorization nonce, what was paid back or is to be. */
  readonly refunds: ReadonlyMap<string, object>;
  /** What the ledger knows of the payment with that authorization nonce, a line each. */
  readonly historyOf: (nonce: string) => Promise<readonly string[]>;
}

export interface Audit {
  readonly counts: Readonly<Record<string, number>>;
  readonly violations: readonly string[];
}

export async function audit(options: AuditOptions): Promise<Audit> {
  const { chain, purchases, payee, priceAtomic } = options;
  const violations: string[] = [];
  const counts: Counts = {
    purchases: purchases.length,
    payments: 0,
    charged: 0,
    delivered: 0,
    "refused, nothing charged": 0,
    "paid, attempts used up, listed for the operator": 0,
    robbed: 0,
    stolen: options.loot.length,
    "charged more than once": 0,
  };
  for (const purchase of purchases) {
    const fault = await judge(purchase, options, counts);
    if (fault === undefined) continue;
    const story = await storyOf(purchase, options);
    violations.push([`item ${purchase.item}: ${fault}`, ...story].join("\n    "));
  }
  violations.push(...thefts(options));
  violations.push(...(await executionFaults(options)));
  const balance = await chain.balanceOf(payee);
  if (balance !== BigInt(counts.charged) * priceAtomic) {
    violations.push(`the payee has ${balance}, not ${counts.charged} × ${priceAtomic}`);
  }
  for (const account of options.accounts) violations.push(...(await nonceFaults(chain, account)));
  return { counts: { ...counts }, violations };
}

interface Counts {
  readonly purchases: number;
  payments: number;
  charged: number;
  delivered: number;
  "refused, nothing charged": number;
  "paid, attempts used up, listed for the operator": number;
  /** Purchases whose customer was told to pay for what was paid. */
  robbed: number;
  readonly stolen: number;
  "charged more than once": number;
}

/** What is wrong with a purchase, or undefined; what is right is counted. */
async function judge(
  purchase: Purchase,
  { chain, listedUndelivered, refunds }: AuditOptions,
  counts: Counts,
): Promise<string | undefined> {
  const { delivered, refusal, answers } = purchase;
  const all = await chargedPayments(chain, purchase.payments);
  const charged = all.filter(({ nonce }) => !refunds.has(nonce.toLowerCase()));
  counts.payments += purchase.payments.length;
  counts.charged += all.length;
  if (delivered) counts.delivered += 1;
  const [paid] = charged;
  const robbed = charged.filter(({ nonce }) => purchase.refused.has(nonce));
  if (robbed.length > 0) counts.robbed += 1;
  if (charged.length > 1) {
    counts["charged more than once"] += 1;
    return `charged ${charged.length} times, told ${JSON.stringify({ refusal, answers })}`;
  }
  if (robbed.length > 0) return `told to pay for what was paid: ${refusal}`;
  if (paid === undefined) {
    if (delivered) return all.length === 0 ? "delivered unpaid" : "delivered, and paid back";
    if (all.length > 0) return undefined;
    counts["refused, nothing charged"] += 1;
    return undefined;
  }
  if (delivered) return undefined;
  const listed = listedUndelivered.has(paid.nonce.toLowerCase());
  if (!listed) {
    const said = JSON.stringify({ refusal, answers, listed });
    return `paid, and neither delivered nor deliverable: ${said}`;
  }
  counts["paid, attempts used up, listed for the operator"] += 1;
  return undefined;
}

/** What the customer did, and what the ledger remembers of each of his payments. */
async function storyOf(
  { diary, payments }: Purchase,
  { historyOf }: AuditOptions,
): Promise<readonly string[]> {
  const histories = await Promise.all(payments.map(({ nonce }) => historyOf(nonce)));
  return [...diary, ...histories.flat()];
}

/** What the thief got, and what the shop was asked for him. */
function thefts({ thief, loot, shop }: AuditOptions): readonly string[] {
  const runs = shop.executions.filter(({ client }) => client.split(", ")[0] === thief);
  return [
    ...loot.map((item) => `item ${item}: stolen`),
    ...runs.map(({ item }) => `item ${item}: the shop was asked for the thief`),
  ];
}

async function nonceFaults(
  chain: Chain,
  { address, stored = 0 }: AuditOptions["accounts"][number],
): Promise<readonly string[]> {
  const mined = Number(await chain.rpc("eth_getTransactionCount", [address, "latest"]));
  const pending = Number(await chain.rpc("eth_getTransactionCount", [address, "pending"]));
  if (stored === mined && pending === mined) return [];
  return [`${address}: stored nonce ${stored}, chain ${mined}, pending ${pending}`];
}

/** Those whose authorization is used on the chain. */
export async function chargedPayments<Shown extends Payment>(
  chain: Chain,
  payments: readonly Shown[],
): Promise<Shown[]> {
  const charged: Shown[] = [];
  for (const payment of payments) {
    const args = [payment.from as Address, payment.nonce as Hex] as const;
    const data = encodeFunctionData({ abi, functionName: "authorizationState", args });
    const state = await chain.rpc("eth_call", [{ to: chain.asset, data }, "latest"]);
    if (BigInt(String(state)) !== 0n) charged.push(payment);
  }
  return charged;
}

/** At most so many executions for one item, and none whose payment is not in the named transaction. */
async function executionFaults({
  chain,
  shop,
  purchases,
  deaths,
  refunds,
}: AuditOptions): Promise<string[]> {
  const faults: string[] = [];
  const executions = Map.groupBy(shop.executions, ({ item }) => item);
  const uses = new Map<string, ReadonlySet<string>>();
  for (const [item, all] of executions) {
    const name = `item ${item}`;
    const payments = purchases[Number(item)]?.payments ?? [];
    if (all.length > MAX_EXECUTIONS + deaths) faults.push(`${name}: executed ${all.length} times`);
    const keys = new Set(all.map(({ idempotencyKey }) => idempotencyKey));
    // Who was paid back may buy it again.
    const again = payments.filter(({ nonce }) => refunds.has(nonce.toLowerCase())).length;
    if (keys.size > 1 + again) faults.push(`${name}: executed under ${keys.size} idempotency keys`);
    for (const { transaction } of all) {
      const used = uses.get(transaction) ?? (await usesIn(chain, transaction));
      uses.set(transaction, used);
      if (payments.some(({ nonce }) => used.has(nonce))) continue;
      faults.push(`${name}: executed for ${transaction}, which did not pay for it`);
    }
  }
  return faults;
}

/** The authorizations that a transaction used, by their nonces; none where it failed or is not there. */
async function usesIn(chain: Chain, transaction: string): Promise<ReadonlySet<string>> {
  const { status, logs } = Object(await chain.rpc("eth_getTransactionReceipt", [transaction]));
  if (status !== "0x1" || !Array.isArray(logs)) return new Set();
  const used = logs.filter(({ topics }) => topics[0] === AUTHORIZATION_USED);
  return new Set(used.map(({ topics }) => String(topics[2])));
}
