/** The key that pays back on an EVM network: it signs EIP-3009 authorizations to those who have paid. */
import { keccak256 } from "../../x402/keccak.ts";
import { checksumAddress } from "../../x402/address.ts";
import { EXACT_SCHEME, X402_VERSION, type FacilitatorRequest } from "../../x402/x402.ts";
import { ChainError, type Refunder, type TransferBack } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { addressWord, parseHexData, readWord, uintWord } from "./abi.ts";
import type { Account } from "./account.ts";
import type { TokenTerms } from "./authorization.ts";
import { authorizationDigest, balanceOfCall, type Token } from "./token.ts";

/** How long a transfer may take to get into a block, seconds. */
const VALID_SECONDS = 600;
const V_OFFSET = 27;

export interface EvmRefunderOptions {
  readonly account: Account;
  readonly network: string;
  readonly tokens: TokenTerms["tokens"];
  readonly endpoints: RpcEndpoints;
  /** Unix seconds. */
  readonly clock: () => number;
}

export class EvmRefunder implements Refunder {
  readonly address: string;
  readonly validMs = VALID_SECONDS * 1_000;
  readonly hasNonces = true;
  readonly #at: EvmRefunderOptions;

  constructor(options: EvmRefunderOptions) {
    this.#at = options;
    this.address = options.account.address;
  }

  has(asset: string): boolean {
    return this.#at.tokens.has(asset.toLowerCase());
  }

  /** The token moves one authorization for each nonce, and the nonce is the payment's: whoever signs it again, by whatever ledger. */
  async transfer(back: TransferBack): Promise<FacilitatorRequest> {
    const { account, network, clock } = this.#at;
    const { asset, to, amountAtomic, payment, number, resource } = back;
    const token = this.#token(asset);
    const from = this.address;
    const validBefore = Math.floor(clock()) + VALID_SECONDS;
    const nonce = refundNonce(payment, number);
    const words =
      addressWord(from) +
      addressWord(to) +
      uintWord(amountAtomic) +
      uintWord(0) +
      uintWord(validBefore) +
      nonce.slice(2);
    const { r, s, yParity } = account.sign(authorizationDigest(token, words));
    const signature = Buffer.concat([r, s, Uint8Array.of(V_OFFSET + yParity)]).toString("hex");
    const authorization = {
      from,
      to: checksumAddress(to),
      value: String(amountAtomic),
      validAfter: "0",
      validBefore: String(validBefore),
      nonce,
    };
    const { name, version } = token.asset.eip712;
    return {
      paymentPayload: {
        x402Version: X402_VERSION,
        scheme: EXACT_SCHEME,
        network,
        payload: { signature: `0x${signature}`, authorization },
      },
      paymentRequirements: {
        scheme: EXACT_SCHEME,
        network,
        maxAmountRequired: String(amountAtomic),
        asset: token.asset.address,
        payTo: checksumAddress(to),
        resource,
        description: "",
        maxTimeoutSeconds: VALID_SECONDS,
        extra: { name, version },
      },
    };
  }

  async balance(asset: string, signal: AbortSignal): Promise<bigint> {
    const { address: to } = this.#token(asset);
    const call = { to, data: `0x${balanceOfCall(this.address)}` };
    return this.#at.endpoints.run(async (rpc) => {
      const answer = parseHexData(await rpc.call("eth_call", [call, "latest"], signal));
      const balance = readWord(answer ?? "", 0);
      if (balance === undefined) throw new ChainError("CHAIN_ANSWER", `${rpc.host}: no balance`);
      return balance;
    }, signal);
  }

  #token(asset: string): Token {
    const token = this.#at.tokens.get(asset.toLowerCase());
    if (token !== undefined) return token;
    throw new Error(`the token ${asset} is not settled here`);
  }
}

/** 32 bytes with `0x`. */
function refundNonce(payment: string, number: number): string {
  const hash = keccak256(Buffer.from(`coinslot refund ${number} of ${payment}`));
  return `0x${Buffer.from(hash).toString("hex")}`;
}
