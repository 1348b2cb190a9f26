/**
 * What payers have of a token. Many nodes answer `pending` with the newest block, so a balance may lack what is
 * on its way; whether it does is asked of the token in the same call: the nonce of a payment that has left the
 * purse is used.
 */
import { ChainError, type Checked, type PurseBalance, type PurseReader } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { decodeAggregate3, encodeAggregate3, parseHexData } from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { MULTICALL3_ADDRESS, soleWord } from "./inspection.ts";
import { authorizationStateCall, balanceOfCall } from "./token.ts";

export class EvmPurses implements PurseReader<EvmCheckedAuthorization> {
  readonly #endpoints: RpcEndpoints;
  readonly #clock: () => number;

  /** @param clock Unix seconds */
  constructor(endpoints: RpcEndpoints, clock: () => number) {
    this.#endpoints = endpoints;
    this.#clock = clock;
  }

  /** Milliseconds since the epoch, not later than now. */
  get moment(): number {
    return this.#clock() * 1000;
  }

  async read(
    { authorization: { token, from } }: Checked<EvmCheckedAuthorization>,
    nonces: readonly string[],
    signal: AbortSignal,
  ): Promise<PurseBalance & { readonly executed: readonly boolean[] }> {
    const { address: target } = token;
    const states = nonces.map((nonce) => ({
      target,
      callData: authorizationStateCall(from, nonce),
    }));
    const data = encodeAggregate3([{ target, callData: balanceOfCall(from) }, ...states]);
    const call = { to: MULTICALL3_ADDRESS, data: `0x${data}` };
    const askedMs = this.moment;
    return this.#endpoints.run(async (rpc) => {
      const answer = parseHexData(await rpc.call("eth_call", [call, "pending"], signal));
      const [balance, ...used] = (decodeAggregate3(answer ?? "") ?? []).map(soleWord);
      if (balance === undefined || used.length !== nonces.length) {
        throw new ChainError("CHAIN_ANSWER", `${rpc.host}: Multicall3 did not tell a balance`);
      }
      // A nonce that cannot be read counts as unused.
      return { balanceAtomic: balance, askedMs, executed: used.map((word) => word === 1n) };
    }, signal);
  }
}
