/**
 * Transactions of ours before they are signed: what they call, with how much gas, at which fees, and
 * whether the account can pay. Every one calls a configured token, or Multicall3 over tokens, without value.
 */
import type { TransactionSerialized } from "viem";
import { parseTransaction } from "viem/utils";
import type { EvmNetwork } from "../../x402/network.ts";
import type { Refusal, Result } from "../../x402/result.ts";
import {
  ChainError,
  type Draft,
  type Inspected,
  type Preparation,
  type SignedTransaction,
  type WalletBalance,
} from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import type { Account } from "./account.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { batchCall, readHasCode, simulateBatch } from "./batch.ts";
import { feeCap, raiseFees, type FeeReader, type Fees } from "./fees.ts";
import { GasBalance, readBalance } from "./gas-balance.ts";
import { MULTICALL3_ADDRESS } from "./inspection.ts";
import { BATCH_BASE_GAS, type NetworkCosts } from "./network-costs.ts";
import { rehearse } from "./rehearsal.ts";
import { transferCall } from "./token.ts";
import { signTransaction, type ContractTransaction } from "./transaction.ts";

export interface DraftingOptions {
  readonly network: EvmNetwork;
  readonly accounts: readonly Account[];
  readonly costs: NetworkCosts;
  readonly fees: FeeReader;
  /** Unix seconds. */
  readonly clock: () => number;
}

/** Where a transaction goes and what it says. */
type Call = Pick<ContractTransaction, "to" | "data" | "gasLimit">;

type Paid = Call & Pick<ContractTransaction, "fees">;

interface Together {
  readonly indices: readonly number[];
  readonly gasLimit: bigint;
}

interface Payer {
  readonly account: Account;
  readonly balance: GasBalance;
}

export class Drafting {
  readonly #network: EvmNetwork;
  readonly #costs: NetworkCosts;
  readonly #fees: FeeReader;
  /** By lower-case address. */
  readonly #payers: ReadonlyMap<string, Payer>;

  constructor({ network, accounts, costs, fees, clock }: DraftingOptions) {
    this.#network = network;
    this.#costs = costs;
    this.#fees = fees;
    this.#payers = new Map(
      accounts.map((account) => {
        const { address } = account;
        const balance = new GasBalance({ account: address, network: network.name, clock });
        return [address.toLowerCase(), { account, balance }];
      }),
    );
  }

  /** See `Mechanism.prepare`. @throws {TypeError} for an account that is not ours, or without payments */
  async prepare(
    rpc: Rpc,
    payments: readonly Inspected<EvmCheckedAuthorization>[],
    address: string,
    signal: AbortSignal,
  ): Promise<Preparation> {
    const payer = this.#payerOf(address);
    const [first, ...others] = payments;
    if (first === undefined) throw new TypeError("a settlement needs a payment");
    if (others.length === 0) return this.#prepareAlone(rpc, first, payer, signal);
    const authorizations = payments.map(({ authorization }) => authorization);
    const { indices, gasLimit } = await this.#together(rpc, authorizations, address, signal);
    const chosen = indices.flatMap((index) => authorizations[index] ?? []);
    const going = new Set(indices);
    const leftOut = [...authorizations.keys()].filter((index) => !going.has(index));
    const [only, ...more] = chosen;
    if (only === undefined) return { draft: undefined, leftOut };
    // With the gas that was simulated, also when fewer succeeded.
    const batch = { to: MULTICALL3_ADDRESS, data: batchCall(chosen), gasLimit };
    const call = more.length === 0 ? this.#directCall(only) : batch;
    const fees = await this.#fees.read(rpc, signal);
    return { draft: await this.#draft(rpc, payer, { ...call, fees }, signal), leftOut };
  }

  /** See `Mechanism.raise`. @throws {TypeError} for bytes that are no transaction of ours */
  async raise(
    rpc: Rpc,
    variants: readonly SignedTransaction[],
    signal: AbortSignal,
  ): Promise<SignedTransaction | undefined> {
    const [newest, ...older] = variants.map(readVariant).toReversed();
    if (newest === undefined) throw new TypeError("a submission has at least one variant");
    const { account, balance } = this.#payerOf(newest.account);
    let present: Fees;
    try {
      present = await this.#fees.read(rpc, signal);
    } catch (error) {
      if (error instanceof ChainError && error.code === "CHAIN_FEE") return undefined;
      throw error;
    }
    const paid = [newest, ...older].map(({ fees }) => fees);
    const fees = raiseFees(paid, present, this.#fees.capWei);
    if (fees === undefined) return undefined;
    const { nonce, to, data, gasLimit } = newest;
    // What the newest variant may cost was set aside when it was signed.
    await balance.reserve(rpc, gasLimit * (feeCap(fees) - feeCap(newest.fees)), signal);
    return this.#sign(account, { to, data, gasLimit }, fees, nonce);
  }

  /** See `Mechanism.balance`. @throws {TypeError} for an account that is not ours */
  async balance(rpc: Rpc, address: string, signal: AbortSignal): Promise<WalletBalance> {
    const { account } = this.#payerOf(address);
    const [balanceAtomic, price] = await Promise.all([
      readBalance(rpc, account.address, signal),
      this.#fees.price(rpc, signal),
    ]);
    const { decimals } = this.#network.nativeCurrency;
    const settlementAtomic = this.#costs.usualGas * price;
    return { address: account.address, balanceAtomic, decimals, settlementAtomic };
  }

  /**
   * Simulates a payment alone just as it would be sent now by that account of ours.
   * @throws {TypeError} for an account that is not ours, {@link ChainError} like {@link prepare}
   */
  async rehearse(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    address: string,
    signal: AbortSignal,
  ): Promise<Result<void, Refusal>> {
    const { account } = this.#payerOf(address);
    const fees = await this.#fees.read(rpc, signal);
    const call = this.#directCall(authorization);
    return rehearse(rpc, { ...call, fees, account: account.address }, signal);
  }

  /** Gas limit of one payment alone. */
  gasLimit({ proven }: EvmCheckedAuthorization): bigint {
    return proven ? this.#costs.gasLimit : this.#costs.walletGasLimit;
  }

  async #prepareAlone(
    rpc: Rpc,
    { authorization, runsCode }: Inspected<EvmCheckedAuthorization>,
    payer: Payer,
    signal: AbortSignal,
  ): Promise<Preparation> {
    const call = this.#directCall(authorization);
    const fees = await this.#fees.read(rpc, signal);
    if (runsCode) {
      const { address } = payer.account;
      const rehearsed = await rehearse(rpc, { ...call, fees, account: address }, signal);
      if (!rehearsed.ok) return { draft: undefined, leftOut: [], refused: rehearsed.error };
    }
    return { draft: await this.#draft(rpc, payer, { ...call, fees }, signal), leftOut: [] };
  }

  /** Which payments can go together, and the gas that just these were simulated with. */
  async #together(
    rpc: Rpc,
    authorizations: readonly EvmCheckedAuthorization[],
    account: string,
    signal: AbortSignal,
  ): Promise<Together> {
    const simulate = async (indices: readonly number[]): Promise<Together> => {
      const gasLimit = BATCH_BASE_GAS + BigInt(indices.length) * this.#costs.itemGasLimit;
      if (indices.length === 0) return { indices, gasLimit };
      const asked = indices.flatMap((index) => authorizations[index] ?? []);
      const simulation = { authorizations: asked, account, gasLimit };
      const succeeds = await simulateBatch(rpc, simulation, signal);
      return { indices: indices.filter((_, at) => succeeds[at] === true), gasLimit };
    };
    const proven = [...authorizations.keys()].filter((index) => authorizations[index]?.proven);
    const payers = proven.flatMap((index) => authorizations[index]?.from ?? []);
    const [together, hasOwnCode] = await Promise.all([
      simulate(proven),
      readHasCode(rpc, payers, signal),
    ]);
    if (!hasOwnCode.includes(true)) return together;
    // That code goes alone; here it may have burnt the gas of the others.
    return simulate(proven.filter((_, at) => hasOwnCode[at] === false));
  }

  #directCall(authorization: EvmCheckedAuthorization): Call {
    const { words, signature, proven, token } = authorization;
    const data = transferCall(words, signature, proven);
    return { to: token.address, data, gasLimit: this.gasLimit(authorization) };
  }

  async #draft(
    rpc: Rpc,
    { account, balance }: Payer,
    call: Paid,
    signal: AbortSignal,
  ): Promise<Draft> {
    const { fees } = call;
    // Last: whatever failed before has set nothing aside.
    await balance.reserve(rpc, call.gasLimit * feeCap(fees), signal);
    return {
      account: account.address,
      sign: (accountNonce) => this.#sign(account, call, fees, accountNonce),
    };
  }

  #sign(account: Account, call: Call, fees: Fees, accountNonce: number): SignedTransaction {
    const { chainId } = this.#network;
    const { hash, raw } = signTransaction({ ...call, chainId, fees, nonce: accountNonce }, account);
    return { transaction: hash, raw, account: account.address, accountNonce };
  }

  #payerOf(address: string): Payer {
    const payer = this.#payers.get(address.toLowerCase());
    if (payer !== undefined) return payer;
    throw new TypeError(`${this.#network.name}: ${address} is no account of ours`);
  }
}

interface Variant extends Call {
  readonly account: string;
  readonly nonce: number;
  readonly fees: Fees;
}

/** What stored bytes say, so that a settlement can be raised that another process has signed. */
function readVariant({ raw, account, accountNonce, transaction }: SignedTransaction): Variant {
  if (!isSerialized(raw)) throw new TypeError(`the stored bytes of ${transaction} are not hex`);
  const parsed = parseTransaction(raw);
  const { to, data = "0x", gas, nonce = 0 } = parsed;
  if (typeof to !== "string" || gas === undefined || nonce !== accountNonce) {
    throw new TypeError(`the stored bytes of ${transaction} are not what we sign`);
  }
  return { account, nonce, to, data: data.slice(2), gasLimit: gas, fees: feesOf(parsed) };
}

/** What signed bytes bid; undefined for bytes that are not ours. */
export function feesIn(raw: string): Fees | undefined {
  try {
    return isSerialized(raw) ? feesOf(parseTransaction(raw)) : undefined;
  } catch {
    return undefined;
  }
}

function feesOf(parsed: ReturnType<typeof parseTransaction>): Fees {
  if (parsed.type === "legacy") return { kind: "legacy", gasPrice: parsed.gasPrice ?? 0n };
  const { maxFeePerGas = 0n, maxPriorityFeePerGas = 0n } = parsed;
  return { kind: "eip1559", maxFeePerGas, maxPriorityFeePerGas };
}

function isSerialized(raw: string): raw is TransactionSerialized {
  return /^0x[0-9a-f]+$/i.test(raw);
}
