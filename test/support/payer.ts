/**
 * A buyer: signs EIP-3009 authorizations for payment requirements as the official clients do, and
 * wrongly in every way a test may want.
 */
import { randomBytes } from "node:crypto";
import { toHex, type Address, type Hex } from "viem";
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from "viem/accounts";
import { networkOf, isNetworkName } from "../../src/x402/network.ts";
import type {
  EvmAuthorization,
  EvmPayload,
  PaymentPayload,
  PaymentRequirements,
} from "../../src/x402/x402.ts";

export interface FreshAccount {
  readonly address: Address;
  readonly privateKey: Hex;
  readonly account: PrivateKeyAccount;
}

/** An account that nobody else has: it holds nothing and its nonce is 0. */
export function freshAccount(): FreshAccount {
  const privateKey = generatePrivateKey();
  const account = privateKeyToAccount(privateKey);
  return { address: account.address, privateKey, account };
}

/** A payment whose payload is known to be an EVM one. */
export interface EvmPayment extends PaymentPayload {
  readonly payload: EvmPayload;
}

export interface SignOptions {
  /** Who signs; also the payer unless `overrides.from` says otherwise (a smart wallet's owner). */
  readonly account: PrivateKeyAccount;
  readonly requirements: PaymentRequirements;
  /** Default: the chain id of the requirements' network. */
  readonly chainId?: number;
  /** Default: the clock. Unix seconds. */
  readonly now?: number;
  /** Members to sign with instead of the ones that a correct client would choose. */
  readonly overrides?: Partial<EvmAuthorization>;
  /** Another EIP-712 domain than the token's. */
  readonly domain?: { readonly name?: string; readonly version?: string };
  /** Another EIP-712 type of the same members than `TransferWithAuthorization`. */
  readonly primaryType?: string;
  /** Changes what is sent after it was signed. */
  readonly corrupt?: (payment: EvmPayment) => EvmPayment;
}

/** A payment payload (protocol section 2.2) for the requirements, signed for the token's domain. */
export async function signPayment(options: SignOptions): Promise<EvmPayment> {
  const { account, requirements } = options;
  const authorization = authorize(options);
  const { primaryType = "TransferWithAuthorization" } = options;
  const signature = await account.signTypedData({
    domain: {
      name: options.domain?.name ?? text(requirements.extra?.["name"]),
      version: options.domain?.version ?? text(requirements.extra?.["version"]),
      chainId: options.chainId ?? chainIdOf(requirements.network),
      verifyingContract: requirements.asset as Address,
    },
    types: {
      [primaryType]: [
        { name: "from", type: "address" },
        { name: "to", type: "address" },
        { name: "value", type: "uint256" },
        { name: "validAfter", type: "uint256" },
        { name: "validBefore", type: "uint256" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType,
    message: {
      from: authorization.from,
      to: authorization.to,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
      nonce: authorization.nonce,
    },
  });
  const payment: EvmPayment = {
    x402Version: 1,
    scheme: requirements.scheme,
    network: requirements.network,
    payload: { signature, authorization },
  };
  return options.corrupt?.(payment) ?? payment;
}

/** What the official clients put into an authorization. */
function authorize(options: SignOptions): EvmAuthorization {
  const { account, requirements, overrides } = options;
  const now = options.now ?? Math.floor(Date.now() / 1000);
  return {
    from: account.address,
    to: requirements.payTo,
    value: requirements.maxAmountRequired,
    validAfter: String(now - 600),
    validBefore: String(now + requirements.maxTimeoutSeconds),
    nonce: toHex(randomBytes(32)),
    ...overrides,
  };
}

/** Payment requirements for a network's own stablecoin; members may be given or replaced. */
export function requirementsFor(
  network: string,
  members: Partial<PaymentRequirements> & Pick<PaymentRequirements, "payTo">,
): PaymentRequirements {
  const facts = isNetworkName(network) ? networkOf(network) : undefined;
  if (facts?.kind !== "evm") throw new Error(`${network} is not an EVM network`);
  return {
    scheme: "exact",
    network,
    maxAmountRequired: "10000",
    asset: facts.asset.address,
    resource: "https://shop.example/thing",
    description: "",
    mimeType: "application/json",
    maxTimeoutSeconds: 60,
    extra: { ...facts.asset.eip712 },
    ...members,
  };
}

function chainIdOf(network: string): number {
  const facts = isNetworkName(network) ? networkOf(network) : undefined;
  if (facts?.kind !== "evm") throw new Error(`${network} is not an EVM network`);
  return facts.chainId;
}

function text(member: unknown): string {
  return typeof member === "string" ? member : "";
}
