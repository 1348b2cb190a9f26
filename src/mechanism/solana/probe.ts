/**
 * Start-up checks (S13): our fee payers can pay, the mints are what the configuration says, and whoever is to
 * be paid has a token account to be paid into. All of it is read at once.
 */
import { formatAmount } from "../../x402/amount.ts";
import type { SolanaAsset, SolanaNetwork } from "../../x402/network.ts";
import type { Finding } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import { readAccounts, readTokenAccount, type ChainAccount } from "./accounts.ts";
import { associatedAccount } from "./associated-account.ts";
import { RENT_EXEMPT_LAMPORTS, type FeeBalances } from "./balances.ts";
import { readMint } from "./mint.ts";
import { SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "./programs.ts";

/** What `--url` of the command-line tools calls a network. */
const CLUSTERS: Readonly<Partial<Record<string, string>>> = {
  solana: "mainnet-beta",
  "solana-devnet": "devnet",
};

/**
 * So much is read of each account: mints have a few hundred bytes, with a name and a link in their extensions
 * some more; and a hundred accounts of that length still fit into an answer.
 */
const MAX_BYTES = 16_384;

export interface ProbeSubject {
  readonly network: SolanaNetwork;
  readonly assets: readonly SolanaAsset[];
  /** Addresses of our fee payers. */
  readonly accounts: readonly string[];
  /** Those that may be paid; null where anyone may, and nobody can be looked at. */
  readonly payTo: ReadonlySet<string> | null;
  readonly balances: FeeBalances;
  /** Told the program that owns a mint. */
  readonly foundProgram: (asset: string, program: string) => void;
}

type Accounts = ReadonlyMap<string, ChainAccount>;

/**
 * Everything found, errors and warnings; keeps the balances and the mints' programs.
 * @throws {ChainError} when the endpoint cannot be asked
 */
export async function probe(
  subject: ProbeSubject,
  rpc: Rpc,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { assets, accounts, payTo } = subject;
  const payees = [...(payTo ?? [])];
  const wanted = [
    ...accounts,
    ...assets.map(({ address }) => address),
    ...payees,
    ...payees.flatMap((payee) => assets.flatMap((asset) => candidatesOf(payee, asset))),
  ];
  const found = await readAccounts(
    rpc,
    wanted,
    { commitment: "confirmed", maxBytes: MAX_BYTES },
    signal,
  );
  return [
    ...probeAccounts(subject, found),
    ...assets.flatMap((asset) => probeAsset(subject, asset, found)),
    ...payees.flatMap((payee) => probeWallet(subject, payee, found)),
  ];
}

/** Where the payee's tokens would be: by either program, where it is not known whose the mint is. */
function candidatesOf(payee: string, { address, tokenProgram }: SolanaAsset): readonly string[] {
  const programs = tokenProgram === null ? [TOKEN_PROGRAM, TOKEN_2022_PROGRAM] : [tokenProgram];
  return programs.map((program) => associatedAccount(payee, address, program));
}

/** One that cannot pay is an error where no other one can. */
function probeAccounts(subject: ProbeSubject, found: Accounts): Finding[] {
  const { accounts, balances } = subject;
  for (const account of accounts) balances.noted(account, spendable(found.get(account)));
  const isOneAble = accounts.some((account) => isAble(subject, found.get(account)));
  return accounts.flatMap((account): Finding[] => {
    const message = describeAccount(subject, account, found.get(account));
    if (message === undefined) return [];
    return [isOneAble ? { level: "warning", message } : error("wallet", message)];
  });
}

/** Only plain wallets pay network fees. */
function isWallet({ owner, data }: ChainAccount): boolean {
  return owner === SYSTEM_PROGRAM && data.length === 0;
}

function spendable(account: ChainAccount | undefined): bigint {
  return account !== undefined && isWallet(account) ? account.lamports : 0n;
}

function isAble({ balances }: ProbeSubject, account: ChainAccount | undefined): boolean {
  return spendable(account) >= RENT_EXEMPT_LAMPORTS + balances.settlementLamports;
}

/** Undefined where there is nothing to say. */
function describeAccount(
  subject: ProbeSubject,
  address: string,
  account: ChainAccount | undefined,
): string | undefined {
  const { network, balances } = subject;
  const { symbol, decimals } = network.nativeCurrency;
  const inSol = (lamports: bigint): string => `${formatAmount(lamports, decimals)} ${symbol}`;
  const low = balances.lowLamports;
  const advice = `send it at least ${inSol(low)}`;
  if (account === undefined) {
    return `${network.name}: ${address} holds 0 ${symbol} and cannot pay network fees; ${advice}`;
  }
  if (!isWallet(account)) {
    return `${network.name}: ${address} belongs to the program ${account.owner} and cannot pay network fees; use the key of a plain wallet`;
  }
  const { lamports } = account;
  if (lamports >= low) return undefined;
  const title = `${network.name}: ${address} holds ${inSol(lamports)}`;
  if (!isAble(subject, account)) {
    return `${title} and cannot pay network fees, since ${inSol(RENT_EXEMPT_LAMPORTS)} must stay; ${advice}`;
  }
  const left = (lamports - RENT_EXEMPT_LAMPORTS) / balances.settlementLamports;
  return `${title}, enough for about ${left} settlements; ${advice}`;
}

/** The mint, and whether everyone who may be paid in it has an account for it. */
function probeAsset(subject: ProbeSubject, asset: SolanaAsset, found: Accounts): Finding[] {
  const { network, payTo, foundProgram } = subject;
  const title = `${network.name}: the token ${asset.symbol} at ${asset.address}`;
  const account = found.get(asset.address);
  if (account === undefined) return [error("token", `${title} does not exist`)];
  if (account.data.length >= MAX_BYTES) {
    return [
      error("token", `${title} cannot be accepted: its account has ${MAX_BYTES} bytes or more`),
    ];
  }
  const mint = readMint(account);
  if (!mint.ok) return [error("token", `${title} cannot be accepted: ${mint.error}`)];
  const { decimals, program } = mint.value;
  if (asset.tokenProgram !== null && asset.tokenProgram !== program) {
    return [error("token", `${title} belongs to ${program}, not to ${asset.tokenProgram}`)];
  }
  foundProgram(asset.address, program);
  const findings: Finding[] = [];
  if (decimals !== asset.decimals) {
    findings.push(error("token", `${title} has ${decimals} decimals, not ${asset.decimals}`));
  }
  for (const payee of payTo ?? []) {
    const message = describePayee({ network, asset, program, payee }, found);
    if (message !== undefined) findings.push({ level: "warning", message });
  }
  return findings;
}

interface PayeeCase {
  readonly network: SolanaNetwork;
  readonly asset: SolanaAsset;
  readonly program: string;
  readonly payee: string;
}

/** Undefined where the payee can be paid. */
function describePayee(
  { network, asset, program, payee }: PayeeCase,
  found: Accounts,
): string | undefined {
  const address = associatedAccount(payee, asset.address, program);
  const tokens = readTokenAccount(found.get(address), program);
  const title = `${network.name}: payTo ${payee}`;
  if (tokens === undefined) {
    return (
      `${title} has no token account for ${asset.symbol} yet (it would be ${address}), and payments to it are refused ` +
      `unless their buyer pays for creating it; create it with: ${creationOf(network, asset, payee)}`
    );
  }
  if (tokens.owner !== payee) {
    return `${title}: its token account for ${asset.symbol}, ${address}, has been given to ${tokens.owner}, who gets what is paid to it`;
  }
  if (!tokens.isFrozen) return undefined;
  return `${title}: its token account for ${asset.symbol}, ${address}, is frozen, and payments to it are refused`;
}

function creationOf(network: SolanaNetwork, asset: SolanaAsset, payee: string): string {
  const cluster = CLUSTERS[network.name];
  const url = cluster === undefined ? "" : ` --url ${cluster}`;
  return `spl-token create-account ${asset.address} --owner ${payee} --fee-payer <keypair>${url}`;
}

/** A token account instead of its owner: what is paid would go to an account that belongs to that account. */
function probeWallet({ network }: ProbeSubject, payee: string, found: Accounts): Finding[] {
  const account = found.get(payee);
  if (account?.owner !== TOKEN_PROGRAM && account?.owner !== TOKEN_2022_PROGRAM) return [];
  const message = `${network.name}: payTo ${payee} is a token account or a mint, and what is paid to it would be lost; name the wallet that owns it`;
  return [{ level: "warning", message }];
}

/** Whatever is wrong here, the cluster has shown that it is the right one. */
function error(about: "wallet" | "token", message: string): Finding {
  return { level: "error", message, isChainRight: true, about };
}
