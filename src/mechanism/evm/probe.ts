/** Start-up checks: whether the endpoint is the network that it is configured to be, and we can pay. */
import { ChainError, type Finding } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import type { EvmNetwork } from "../../x402/network.ts";
import { formatAmount } from "../../x402/amount.ts";
import { parseHexData, parseQuantity, quantityOf, readWord, WORD } from "./abi.ts";
import { feeCap, type FeeReader } from "./fees.ts";
import { DECIMALS_CALL, DOMAIN_SEPARATOR_CALL, type Token } from "./token.ts";
import { isRecord } from "../../x402/json.ts";

/** How far chain time and ours may be apart, seconds. */
const MAX_CLOCK_SKEW_SECONDS = 30;
/** Below so many settlements at the present price, the fee balance is reported as low. */
const LOW_BALANCE_SETTLEMENTS = 20n;

export interface EvmProbeSubject {
  readonly network: EvmNetwork;
  /** An endpoint that serves the network. */
  readonly rpc: Rpc;
  readonly fees: FeeReader;
  readonly tokens: Iterable<Token>;
  readonly accounts: readonly string[];
  /** Gas of one settlement, at most. */
  readonly gasLimit: bigint;
  /** Unix seconds. */
  readonly clock: () => number;
}

/** What the endpoint serves instead of the network, in words. @throws {ChainError} when it cannot be asked */
export async function identify(
  rpc: Rpc,
  network: EvmNetwork,
  signal: AbortSignal,
): Promise<string | undefined> {
  const chainId = await read(rpc, "eth_chainId", [], signal);
  if (chainId === BigInt(network.chainId)) return undefined;
  return `${rpc.host} serves chain ${chainId}, but ${network.name} is chain ${network.chainId}`;
}

/** Everything found, errors and warnings. @throws {ChainError} when the endpoint cannot be asked */
export async function probe(
  subject: EvmProbeSubject,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const findings = await Promise.all([
    probeClock(subject, signal),
    ...Array.from(subject.tokens, (token) => probeToken(subject, token, signal)),
    probeAccounts(subject, signal),
  ]);
  return findings.flat();
}

async function probeToken(
  { network, rpc }: EvmProbeSubject,
  token: Token,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { asset } = token;
  const title = `${network.name}: the token ${asset.symbol} at ${asset.address}`;
  if (!(await hasCode(rpc, asset.address, signal))) return [tokenError(`${title} does not exist`)];
  const [separator, decimals] = await Promise.all([
    readContract(rpc, asset.address, DOMAIN_SEPARATOR_CALL, signal),
    readContract(rpc, asset.address, DECIMALS_CALL, signal),
  ]);
  const findings: Finding[] = [];
  if (separator === undefined) {
    findings.push(tokenError(`${title} has no DOMAIN_SEPARATOR(), so it is no EIP-3009 token`));
  } else if (separator !== Buffer.from(token.domainSeparator).toString("hex")) {
    const { name, version } = asset.eip712;
    findings.push(
      tokenError(
        `${title} has another EIP-712 domain than name ${quote(name)}, version ${quote(version)}`,
      ),
    );
  }
  const actual = decimals === undefined ? undefined : readWord(decimals, 0);
  if (actual !== BigInt(asset.decimals)) {
    findings.push(tokenError(`${title} has ${actual ?? "no"} decimals, not ${asset.decimals}`));
  }
  return findings;
}

/** One that cannot pay is an error where no other one can. */
async function probeAccounts(
  subject: EvmProbeSubject,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { accounts } = subject;
  const probed = await Promise.all(
    accounts.map((account) => probeAccount(subject, account, signal)),
  );
  const isOneAble = probed.some(({ isAble }) => isAble);
  return probed.flatMap(({ isAble, message }): readonly Finding[] => {
    if (message === undefined) return [];
    return isAble || isOneAble ? [{ level: "warning", message }] : [ourError("wallet", message)];
  });
}

interface ProbedAccount {
  /** Whether it can pay for one settlement, at the fees that would be signed. */
  readonly isAble: boolean;
  /** Undefined where there is nothing to say. */
  readonly message?: string;
}

async function probeAccount(
  { network, rpc, fees, gasLimit }: EvmProbeSubject,
  account: string,
  signal: AbortSignal,
): Promise<ProbedAccount> {
  const balance = await read(rpc, "eth_getBalance", [account, "latest"], signal);
  const { symbol, decimals } = network.nativeCurrency;
  const title = `${network.name}: ${account} holds ${formatAmount(balance, decimals)} ${symbol}`;
  const unable = `${title} and cannot pay network fees; send it a little ${symbol}`;
  if (balance === 0n) return { isAble: false, message: unable };
  const price = await fees.price(rpc, signal);
  // Above our cap nothing is signed at all, whatever the account has.
  const most = await fees.read(rpc, signal).then(feeCap, () => price);
  if (balance < gasLimit * most) return { isAble: false, message: unable };
  const perSettlement = gasLimit * price;
  if (balance >= perSettlement * LOW_BALANCE_SETTLEMENTS) return { isAble: true };
  const left = balance / perSettlement;
  return { isAble: true, message: `${title}, enough for about ${left} settlements` };
}

/** The pending block has the time at which the next transaction would run; an idle chain's last has not. */
async function probeClock(
  { network, rpc, clock }: EvmProbeSubject,
  signal: AbortSignal,
): Promise<Finding[]> {
  const chainTime =
    (await blockTime(rpc, "pending", signal)) ?? (await blockTime(rpc, "latest", signal));
  if (chainTime === undefined) {
    throw new ChainError("CHAIN_ANSWER", `${rpc.host}: a block without a timestamp`);
  }
  const skew = Number(chainTime) - Math.floor(clock());
  if (Math.abs(skew) <= MAX_CLOCK_SKEW_SECONDS) return [];
  const direction = skew > 0 ? "behind" : "ahead of";
  const message = `clock skew: our clock is ${Math.abs(skew)} s ${direction} the chain's`;
  return [ourError("clock", `${network.name}: ${message}`)];
}

async function blockTime(
  rpc: Rpc,
  tag: "pending" | "latest",
  signal: AbortSignal,
): Promise<bigint | undefined> {
  try {
    const block = await rpc.call("eth_getBlockByNumber", [tag, false], signal);
    return isRecord(block) ? quantityOf(block, "timestamp") : undefined;
  } catch (failure) {
    if (failure instanceof RpcRefusal && tag === "pending") return undefined;
    throw failure;
  }
}

/** One word of a contract's answer as hex; undefined when it reverts or answers something else. */
async function readContract(
  rpc: Rpc,
  to: string,
  data: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const answer = parseHexData(
      await rpc.call("eth_call", [{ to, data: `0x${data}` }, "latest"], signal),
    );
    return answer?.length === WORD ? answer : undefined;
  } catch (failure) {
    if (failure instanceof RpcRefusal) return undefined;
    throw failure;
  }
}

/** Whether there is code at the address now. */
export async function hasCode(
  rpc: Rpc,
  address: string,
  signal: AbortSignal,
  tag = "latest",
): Promise<boolean> {
  const code = parseHexData(await rpc.call("eth_getCode", [address, tag], signal));
  if (code !== undefined) return code !== "";
  throw new ChainError("CHAIN_ANSWER", `${rpc.host}: code of the wrong shape`);
}

async function read(
  rpc: Rpc,
  method: string,
  params: readonly unknown[],
  signal: AbortSignal,
): Promise<bigint> {
  const value = parseQuantity(await rpc.call(method, params, signal));
  if (value !== undefined) return value;
  throw new ChainError("CHAIN_ANSWER", `${method} at ${rpc.host}: not a quantity`);
}

export function error(message: string): Finding {
  return { level: "error", message };
}

function tokenError(message: string): Finding {
  return { ...error(message), about: "token" };
}

/** The chain is the right one all the same. */
function ourError(about: "wallet" | "clock", message: string): Finding {
  return { ...error(message), isChainRight: true, about };
}

function quote(text: string): string {
  return JSON.stringify(text);
}
