/**
 * After a run of balances: what is on the chain against what was bought, what was used, paid back and is left against that,
 * and each against what buyers were answered. What nobody may say otherwise: nobody is debited more than his answers have cost,
 * and what the seller has lost is no more, in each life of a gateway, than its killed processes may lose.
 */
import type { Address } from "viem";
import type { PayerCredits } from "../../src/ledger/books.ts";
import type { Chain } from "../support/chain.ts";
import type { FreshAccount } from "../support/payer.ts";
import { runCoinslot } from "../support/serve.ts";
import { chargedPayments, type Audit } from "./audit.ts";
import { balanceFaults, transfersFrom } from "./books-audit.ts";
import { LEFT, type Bought, type Stranger, type Tally, type Wallet } from "./credits-buyers.ts";
import { expectedOf } from "./credits-shop.ts";
import type { ReplicaLife } from "./replicas.ts";

/** Blocks after which no reorganization is expected to undo a transaction. */
const FINAL_BLOCKS = 40;

export interface CreditsAuditOptions {
  readonly chain: Chain;
  /** The configuration of a gateway, and the variables that it reads. */
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
  readonly payee: Address;
  readonly refunder: Address;
  readonly signers: readonly { readonly address: Address; readonly native: bigint }[];
  readonly wallets: readonly Wallet[];
  readonly strangers: readonly Stranger[];
  /** Atomic units that each payer began with. */
  readonly purse: bigint;
  readonly lives: readonly ReplicaLife[];
  readonly tallies: ReadonlyMap<string, Tally>;
  /** What a killed process may lose its seller, atomic units. */
  readonly atRisk: bigint;
  readonly creditsOf: (payer: string) => Promise<PayerCredits>;
  /** Authorization nonces of payments that are paid and wait for the operator. */
  readonly listedUndelivered: ReadonlySet<string>;
  /** Of payments of which all was paid back. */
  readonly paidBack: ReadonlySet<string>;
}

interface Line {
  readonly group: { readonly route?: string };
  readonly account: string;
  readonly debitAtomic: string;
  readonly creditAtomic: string;
}

/** What one payer has paid in the end: what left his purse and is not in his balance. */
interface Paid {
  readonly address: Address;
  readonly amount: bigint;
  readonly left: bigint;
}

type Faults = readonly string[];

export async function auditCredits(options: CreditsAuditOptions): Promise<Audit> {
  const { chain, file, env, wallets, strangers } = options;
  await chain.mine(FINAL_BLOCKS);
  const words = ["books", file, "--verify", "--by", "route", "--format", "json"];
  const { stdout, stderr } = await runCoinslot(words, env);
  const { lines, credits, verification } = Object(JSON.parse(stdout || "{}"));
  if (verification === undefined) {
    return { counts: {}, violations: [`books --verify says nothing: ${stderr}`] };
  }
  const [sum] = credits;
  const found: readonly object[] = [...verification.differences, ...verification.unchecked];
  const payers = [...wallets, ...strangers].map(({ payer }) => payer);
  const paid = await Promise.all(payers.map((payer) => paidBy(payer, options)));
  const bought = [
    ...wallets.flatMap(({ packs }) => packs),
    ...strangers.flatMap((each) => each.payments),
  ];
  const charged = new Set(await chargedPayments(chain, bought));
  const lost = lossesOf(lines, options);
  const violations = [
    ...found.map((finding) => `books: ${JSON.stringify(finding)}`),
    ...(await balanceFaults(options, lines)),
    ...(await chainFaults(options, { lines, charged, paid, sum })),
    ...paymentFaults(bought, charged),
    ...walletFaults(options, paid),
    ...strangerFaults(options, paid, charged),
    ...lost.faults,
  ];
  const counts = {
    "balances, and payers of single answers": wallets.length + strangers.length,
    "packs bought": wallets.flatMap(({ packs }) => packs).filter((each) => charged.has(each))
      .length,
    "answers sold by use": strangers.filter(({ hasGoods }) => hasGoods).length,
    "credits bought": inDollars(sumOf(lines, "creditAtomic")),
    "credits used": Number(sum?.used),
    "credits refunded": Number(sum?.refunded),
    "credits left": Number(sum?.left),
    "payments that the chain has as the books do": verification.payments,
    "transactions that the chain has as the books do": verification.transactions,
    ...lost.counts,
  };
  return { counts, violations };
}

async function paidBy({ address }: FreshAccount, options: CreditsAuditOptions): Promise<Paid> {
  const { balances } = await options.creditsOf(address);
  const left = balances.reduce((sum, { free, leased }) => sum + free + leased, 0n);
  const amount = options.purse - (await options.chain.balanceOf(address)) - left;
  return { address, amount, left };
}

interface Known {
  readonly lines: readonly Line[];
  readonly charged: ReadonlySet<Bought>;
  readonly paid: readonly Paid[];
  /** As `books` tells it: in whole tokens. */
  readonly sum: { readonly left: string } | undefined;
}

/** The sums: transfers to the payee are what was bought, and what all have paid in the end is what was debited and not paid back. */
async function chainFaults(
  { chain, payee, refunder, wallets, creditsOf }: CreditsAuditOptions,
  { lines, charged, paid, sum }: Known,
): Promise<Faults> {
  const came = await chain.balanceOf(payee);
  const worth = [...charged].reduce((total, { amount }) => total + amount, 0n);
  const back = (await transfersFrom(chain, refunder)).reduce(
    (total, each) => total + each.value,
    0n,
  );
  const net = paid.reduce((total, { amount }) => total + amount, 0n);
  const left = paid.reduce((total, each) => total + each.left, 0n);
  const packs = wallets.flatMap((each) => each.packs).filter((each) => charged.has(each));
  const told: readonly [name: string, one: bigint, other: bigint][] = [
    ["the payee has, and payments are worth", came, worth],
    [
      "what came in, less what went back and is left, and what all have paid",
      came - back - left,
      net,
    ],
    [
      "packs are worth, and have put into balances",
      packs.reduce((total, { amount }) => total + amount, 0n),
      sumOf(lines, "creditAtomic", "/.x402/credits/"),
    ],
    ["balances hold, and the books say", left, atomic(sum?.left ?? "0")],
  ];
  const faults = told
    .filter(([, one, other]) => one !== other)
    .map(([name, one, other]) => `${name}: ${one}, ${other}`);
  const balances = await Promise.all(wallets.map(({ payer }) => creditsOf(payer.address)));
  for (const { pot, free, leased } of balances.flatMap((each) => each.balances)) {
    if (free < 0n || leased !== 0n) faults.push(`${pot} has ${free} free and ${leased} leased`);
  }
  return faults;
}

/** Who was asked to pay anew has not paid, and what was delivered was paid. */
function paymentFaults(bought: readonly Bought[], charged: ReadonlySet<Bought>): Faults {
  return bought.flatMap((each) => {
    const { path, nonce, state } = each;
    if (state === "refused" && charged.has(each))
      return [`${path} ${nonce}: told to pay for what was paid`];
    if (state === "delivered" && !charged.has(each)) return [`${path} ${nonce}: delivered unpaid`];
    return state === "open" ? [`${path} ${nonce}: neither delivered nor refused`] : [];
  });
}

/** Nobody has paid more than what he got has cost, and all of them together not less than what may be lost. */
function walletFaults({ wallets }: CreditsAuditOptions, paid: readonly Paid[]): Faults {
  return wallets.flatMap(({ payer, goods, maybe }) => {
    const amount = paid.find(({ address }) => address === payer.address)?.amount ?? 0n;
    if (amount <= goods + maybe) return [];
    return [
      `${payer.address} has paid ${amount} for what cost ${goods}, and ${maybe} where he has left`,
    ];
  });
}

/** Whose answer came has paid what it says that it has used, or nothing where it is paid back or waits for the operator. */
function strangerFaults(
  { strangers, listedUndelivered, paidBack }: CreditsAuditOptions,
  paid: readonly Paid[],
  charged: ReadonlySet<Bought>,
): Faults {
  return strangers.flatMap(({ payer, order, payments, hasGoods }) => {
    const amount = paid.find(({ address }) => address === payer.address)?.amount ?? 0n;
    const own = payments.filter((each) => charged.has(each));
    const { cost } = expectedOf(order);
    if (own.length > 1) return [`${payer.address} was charged ${own.length} times for one answer`];
    const nonce = own[0]?.nonce.toLowerCase() ?? "";
    const isBack = paidBack.has(nonce);
    const owed = isBack
      ? 0n
      : listedUndelivered.has(nonce)
        ? (own[0]?.amount ?? 0n)
        : hasGoods
          ? cost
          : 0n;
    if (amount === owed) return [];
    return [
      `${payer.address} has paid ${amount}, not ${owed}, for ${JSON.stringify({ order, hasGoods, isBack })}`,
    ];
  });
}

/** Of each life: what its answers have cost, and what of that was not debited. */
function lossesOf(
  lines: readonly Line[],
  { lives, tallies, atRisk }: CreditsAuditOptions,
): { readonly counts: Readonly<Record<string, number>>; readonly faults: Faults } {
  const faults: string[] = [];
  let most = 0n;
  let all = 0n;
  let deaths = 0;
  for (const { name, deaths: died } of [...lives, { name: LEFT, deaths: 0 }]) {
    const { goods, maybe } = tallies.get(name) ?? { goods: 0n, maybe: 0n };
    const used = sumOf(lines, "debitAtomic", `/lives/${name}/`);
    const loss = goods - used;
    const allowed = BigInt(died) * atRisk;
    deaths += died;
    if (used > goods + maybe)
      faults.push(
        `life ${name}: debited ${used} for what cost ${goods}, and ${maybe} of which nobody knows`,
      );
    if (loss > allowed)
      faults.push(`life ${name}: ${loss} were lost, of ${allowed} that ${died} dead may lose`);
    if (loss > 0n) all += loss;
    if (died > 0 && loss / BigInt(died) > most) most = loss / BigInt(died);
  }
  const counts = {
    "processes killed that spend": deaths,
    "lost by the seller": inDollars(all),
    "lost at most by one killed process, as an average of its life": inDollars(most),
    "what they may have lost": inDollars(BigInt(deaths) * atRisk),
  };
  return { counts, faults };
}

/** Of what is prepaid, on one side, at the routes whose key has that in it. */
function sumOf(lines: readonly Line[], side: "debitAtomic" | "creditAtomic", of = ""): bigint {
  return lines
    .filter(({ account, group }) => account === "credits" && (group.route ?? "").includes(of))
    .reduce((sum, line) => sum + BigInt(line[side]), 0n);
}

function inDollars(amount: bigint): number {
  return Number(amount) / 1e6;
}

/** `1.5` of a token with six decimals. */
function atomic(amount: string): bigint {
  const [whole = "0", fraction = ""] = amount.split(".");
  return BigInt(whole + fraction.padEnd(6, "0"));
}
