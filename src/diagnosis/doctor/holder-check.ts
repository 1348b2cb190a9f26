/** Whether the tokens answer that members hold: else nobody is one, and buyers are told that it could not be asked. */
import { holdersText, type Config } from "../../config/config.ts";

import { parseHexData, WORD } from "../../mechanism/evm/abi.ts";
import { readHolding } from "../../mechanism/evm/holding.ts";
import { DECIMALS_CALL } from "../../mechanism/evm/token.ts";
import { ChainError } from "../../mechanism/mechanism.ts";
import { RpcRefusal, type Rpc } from "../../mechanism/rpc.ts";
import type { HolderTerms } from "../../x402/holding.ts";
import type { NetworkName } from "../../x402/network.ts";
import { fail, ok, type DoctorFinding } from "./finding.ts";

/** Anybody: of the address 0 many tokens say nothing. */
const SOMEBODY = `0x${"1".padStart(40, "0")}`;

/** Rejects where the endpoint cannot be asked. */
export function checkHolders(
  { members }: Pick<Config, "members">,
  network: NetworkName,
  { rpc, signal }: { readonly rpc: Rpc; readonly signal: AbortSignal },
): Promise<readonly DoctorFinding[]> {
  const groups = Object.entries(members.holders).filter(([, each]) => each.network === network);
  return Promise.all(
    groups.map(async ([group, terms]) => {
      const subject = `${network} members ${group}`;
      const fault = await faultOf(rpc, terms, signal);
      if (fault === null) return ok(subject, `${holdersText(terms)}; the token answers`);
      return fail(subject, ...fault);
    }),
  );
}

/** What is wrong, and what to do about it. */
async function faultOf(
  rpc: Rpc,
  { token, decimals }: HolderTerms,
  signal: AbortSignal,
): Promise<[message: string, fix: string] | null> {
  try {
    await readHolding(rpc, { token, owner: SOMEBODY }, signal);
  } catch (cause) {
    const isAnswer = cause instanceof ChainError && cause.code === "CHAIN_ANSWER";
    if (!isAnswer) throw cause;
    const message = `${token} does not answer balanceOf, so nobody is a member`;
    return [message, "see that it is the address of an ERC-20 or ERC-721 on this network"];
  }
  const told = await readDecimals(rpc, token, signal);
  if (told === null || told === BigInt(decimals)) return null;
  const message = `${token} has ${told} decimals, and not ${decimals}: atLeast means another amount`;
  return [message, `write decimals: ${told}`];
}

/** Null: it does not say, as most ERC-721. */
async function readDecimals(rpc: Rpc, token: string, signal: AbortSignal): Promise<bigint | null> {
  try {
    const call = { to: token, data: `0x${DECIMALS_CALL}` };
    const answer = parseHexData(await rpc.call("eth_call", [call, "latest"], signal));
    return answer?.length === WORD ? BigInt(`0x${answer}`) : null;
  } catch (cause) {
    if (cause instanceof RpcRefusal) return null;
    throw cause;
  }
}
