/** After a run: the books against the chain, by the product's own command and by the balances of everybody in them. */
import { encodeEventTopics, parseAbi, toHex, type Address } from "viem";
import type { RefundState } from "../../src/ledger/refund-steps.ts";
import type { Chain } from "../support/chain.ts";
import type { FreshAccount } from "../support/payer.ts";
import { runCoinslot } from "../support/serve.ts";
import type { Audit } from "./audit.ts";

const abi = parseAbi(["event Transfer(address indexed from, address indexed to, uint256 value)"]);
/** Blocks after which no reorganization is expected to undo a transaction. */
const FINAL_BLOCKS = 40;

/** A payment that is to be paid back, or was. */
export interface AskedRefund {
  readonly payer: string;
  readonly state: RefundState;
}

interface Balance {
  readonly address: Address;
  /** Native atomic units it began with. */
  readonly native: bigint;
}

export interface BooksAuditOptions {
  readonly chain: Chain;
  /** The configuration of a gateway, and the variables that it reads. */
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
  readonly payee: Address;
  readonly refunder: Address;
  readonly signers: readonly Balance[];
  readonly payers: readonly FreshAccount[];
  readonly priceAtomic: bigint;
  readonly refunds: readonly AskedRefund[];
}

interface Line {
  readonly account: string;
  readonly debitAtomic: string;
  readonly creditAtomic: string;
}

export async function auditBooks(options: BooksAuditOptions): Promise<Audit> {
  const { chain, file, env, refunds } = options;
  await chain.mine(FINAL_BLOCKS);
  const words = ["books", file, "--verify", "--format", "json"];
  const { stdout, stderr } = await runCoinslot(words, env);
  const { lines, verification } = Object(JSON.parse(stdout || "{}"));
  if (verification === undefined) {
    return { counts: {}, violations: [`books --verify says nothing: ${stderr}`] };
  }
  const found: readonly object[] = [...verification.differences, ...verification.unchecked];
  const counts = {
    "paid back": refunds.filter(({ state }) => state === "REFUNDED").length,
    "payments that the chain has as the books do": verification.payments,
    "transactions that the chain has as the books do": verification.transactions,
    "differences between books and chain": verification.differences.length,
  };
  const violations = [
    ...found.map((finding) => `books: ${JSON.stringify(finding)}`),
    ...(await balanceFaults(options, lines)),
    ...(await refundFaults(options)),
  ];
  return { counts, violations };
}

/** What the sums of the books say of the balances on the chain. */
export async function balanceFaults(
  {
    chain,
    payee,
    refunder,
    signers,
  }: Pick<BooksAuditOptions, "chain" | "payee" | "refunder" | "signers">,
  lines: readonly Line[],
): Promise<readonly string[]> {
  const left = await Promise.all(signers.map(({ address }) => nativeOf(chain, address)));
  const burnt = signers.reduce((sum, { native }, n) => sum + native - (left[n] ?? 0n), 0n);
  const paidBack = (await transfersFrom(chain, refunder)).reduce(
    (sum, { value }) => sum + value,
    0n,
  );
  const told: readonly [name: string, books: bigint, chain: bigint][] = [
    ["payees", sumOf(lines, "payees", "debitAtomic"), await chain.balanceOf(payee)],
    ["refund wallets", sumOf(lines, "refund wallets", "creditAtomic"), paidBack],
    ["gas wallets", sumOf(lines, "gas wallets", "creditAtomic"), burnt],
  ];
  return told
    .filter(([, books, real]) => books !== real)
    .map(([name, books, real]) => `books: ${name} ${books}, on the chain ${real}`);
}

/** Each payer has got one transfer of the price for each payment of his that was paid back, and nobody anything else. */
async function refundFaults({
  chain,
  refunder,
  payers,
  priceAtomic,
  refunds,
}: BooksAuditOptions): Promise<readonly string[]> {
  const transfers = await transfersFrom(chain, refunder);
  const faults = transfers
    .filter(({ value }) => value !== priceAtomic)
    .map(({ to, value }) => `${to} was paid back ${value}`);
  for (const { state, payer } of refunds) {
    if (state !== "REFUNDED") faults.push(`a refund to ${payer} has ended as ${state}`);
  }
  const names = new Set([
    ...payers.map(({ address }) => address),
    ...transfers.map(({ to }) => to),
  ]);
  for (const payer of new Set([...names].map((name) => name.toLowerCase()))) {
    const got = transfers.filter(({ to }) => to.toLowerCase() === payer).length;
    const owed = refunds.filter((each) => each.payer.toLowerCase() === payer).length;
    if (got !== owed) faults.push(`${payer} was paid back ${got} times for ${owed} payments`);
  }
  return faults;
}

export async function transfersFrom(
  chain: Chain,
  from: Address,
): Promise<readonly { readonly to: string; readonly value: bigint }[]> {
  const topics = encodeEventTopics({ abi, eventName: "Transfer", args: { from } });
  const range = { fromBlock: toHex(0), toBlock: "latest", address: chain.asset, topics };
  const logs = await chain.rpc("eth_getLogs", [range]);
  if (!Array.isArray(logs)) throw new Error("the node tells no logs");
  return logs.map((log) => ({
    to: `0x${String(log.topics[2]).slice(-40)}`,
    value: BigInt(log.data),
  }));
}

async function nativeOf(chain: Chain, address: Address): Promise<bigint> {
  return BigInt(String(await chain.rpc("eth_getBalance", [address, "latest"])));
}

function sumOf(lines: readonly Line[], name: string, side: "debitAtomic" | "creditAtomic"): bigint {
  const named = lines.filter(({ account }) => account === name);
  return named.reduce((sum, line) => sum + BigInt(line[side]), 0n);
}
