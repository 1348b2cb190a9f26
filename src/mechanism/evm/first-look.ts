/**
 * What is certain of an EVM payment that somebody else is to settle, before anybody is asked: whether its signature
 * is the payer's own, and whether it can ever pay what is required. The rest is the facilitator's to judge.
 */
import { LRUCache } from "lru-cache";
import { isEvmAddress } from "../../x402/address.ts";
import { findNetwork, type EvmNetwork } from "../../x402/network.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../x402/x402.ts";
import { judgingLane, MAX_PROVEN_WAITING, MAX_UNPROVEN_WAITING } from "../judging-lane.ts";
import type { Turn } from "../../fairness/fair-lane.ts";
import type { FirstLooks } from "../mechanism.ts";
import { checkedBy, createTokens, firstFault, readRequest } from "./authorization.ts";
import type { Token } from "./token.ts";

/** Tokens that are remembered: they are named by our own requirements, or by who asks us to settle. */
const MAX_TOKENS = 64;
/** Payments that facilitators judge at a time. */
export const MAX_PROVEN_CALLS = 24;
export const MAX_DOUBTED_CALLS = 8;

type Tokens = ReadonlyMap<string, Token>;

/**
 * Of other networks, of tokens whose EIP-712 domain the requirements do not tell, and of what cannot be read nothing
 * is certain.
 */
export class EvmFirstLooks implements FirstLooks {
  readonly #clock: () => number;
  readonly #proven = judgingLane({ calls: MAX_PROVEN_CALLS, waiting: MAX_PROVEN_WAITING });
  readonly #unproven = judgingLane({ calls: MAX_DOUBTED_CALLS, waiting: MAX_UNPROVEN_WAITING });
  readonly #tokens = new LRUCache<string, Tokens>({ max: MAX_TOKENS });

  /** @param clock Unix seconds; what has expired by it is refused, however much of its validity others ask for */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  look(request: FacilitatorRequest): ReturnType<FirstLooks["look"]> {
    const { paymentRequirements: requirements } = request;
    const network = findNetwork(requirements.network);
    if (network?.kind !== "evm") return undefined;
    const tokens = tokensOf(requirements, network, this.#tokens);
    if (tokens === undefined) return undefined;
    const terms = { tokens, payTo: null, validBeforeMarginSeconds: 0 };
    const read = readRequest(request, network.name, terms);
    if (!read.ok) return undefined;
    const fault = firstFault(read.value, request, this.#clock(), 0);
    return checkedBy(read.value, fault);
  }

  inTurn<Value>(isProven: boolean, turn: Turn<Value>, signal: AbortSignal): Promise<Value> {
    return (isProven ? this.#proven : this.#unproven).run(turn, signal);
  }
}

function tokensOf(
  { asset: address, extra }: PaymentRequirements,
  network: EvmNetwork,
  remembered: LRUCache<string, Tokens>,
): Tokens | undefined {
  const { name, version } = extra ?? {};
  if (typeof name !== "string" || typeof version !== "string") return undefined;
  if (!isEvmAddress(address)) return undefined;
  const key = JSON.stringify([network.name, address, name, version]);
  const known = remembered.get(key);
  if (known !== undefined) return known;
  const tokens = createTokens(network, [
    { address, symbol: "", decimals: 0, eip712: { name, version } },
  ]);
  remembered.set(key, tokens);
  return tokens;
}
