/** What an EVM token says of itself, beside what the start-up checks of the mechanism ask: symbol and EIP-3009. */
import { readWord, WORD } from "../../mechanism/evm/abi.ts";
import { authorizationStateCall } from "../../mechanism/evm/token.ts";
import { RpcRefusal, type Rpc } from "../../mechanism/rpc.ts";
import type { EvmAsset } from "../../x402/network.ts";
import { fail, ok, warn, type DoctorFinding } from "./finding.ts";

/** Selectors of `symbol()`, `name()` and `version()`. */
const SYMBOL = "95d89b41";
const NAME = "06fdde03";
const VERSION = "54fd4d50";
/** Nobody's, and never used. */
const NOBODY = `0x${"00".repeat(20)}`;
const NO_NONCE = `0x${"00".repeat(32)}`;
/** Longest text that a token is believed to have, bytes. */
const MAX_TEXT_BYTES = 128;

export interface TokenCheck {
  /** `base-sepolia token USDC` */
  readonly subject: string;
  readonly asset: EvmAsset;
  readonly rpc: Rpc;
  /** What the mechanism's checks have found wrong with it. */
  readonly errors: readonly string[];
}

/** Rejects where the endpoint cannot be asked. */
export async function checkToken(
  { subject, asset, rpc, errors }: TokenCheck,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const call = async (data: string): Promise<string | undefined> => {
    try {
      const answer = await rpc.call(
        "eth_call",
        [{ to: asset.address, data: `0x${data}` }, "latest"],
        signal,
      );
      return typeof answer === "string" && answer.startsWith("0x") ? answer.slice(2) : undefined;
    } catch (cause) {
      if (cause instanceof RpcRefusal) return undefined;
      throw cause;
    }
  };
  const [symbol, name, version, state] = await Promise.all([
    call(SYMBOL).then(readText),
    call(NAME).then(readText),
    call(VERSION).then(readText),
    call(authorizationStateCall(NOBODY, NO_NONCE)),
  ]);
  if (errors.length > 0) {
    const says =
      name === undefined
        ? "see that the address is that of the token on this network"
        : `it says of itself: name ${quote(name)}, version ${quote(version)}; correct assets in the file`;
    return errors.map((message) => fail(subject, message, says));
  }
  if (state?.length !== WORD) {
    const fix = "accept another token: the scheme exact needs transferWithAuthorization (EIP-3009)";
    return [fail(subject, `${asset.address} has no authorizationState, so no EIP-3009`, fix)];
  }
  if (symbol !== asset.symbol) {
    const message = `${asset.address} calls itself ${quote(symbol)}, not ${asset.symbol}`;
    return [
      warn(subject, message, "the symbol is for people only; see that it is the right token"),
    ];
  }
  const { decimals, eip712 } = asset;
  const domain = `EIP-712 domain ${quote(eip712.name)} ${quote(eip712.version)}`;
  return [ok(subject, `${asset.address} has ${decimals} decimals, ${domain}, EIP-3009`)];
}

/** An ABI string: its place, its length, its bytes. */
function readText(hex: string | undefined): string | undefined {
  if (hex === undefined || readWord(hex, 0) !== 32n) return undefined;
  const length = readWord(hex, WORD);
  if (length === undefined || length > BigInt(MAX_TEXT_BYTES)) return undefined;
  const bytes = Buffer.from(hex.slice(2 * WORD, 2 * WORD + Number(length) * 2), "hex");
  return bytes.toString("utf8");
}

function quote(text: string | undefined): string {
  return text === undefined ? "nothing" : JSON.stringify(text);
}
