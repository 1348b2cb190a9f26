/** EIP-3009's `cancelAuthorization`: the nonce of an authorization that nobody used becomes unusable. */
import { encodeFunctionData, parseAbi, type Address, type Hex } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import type { Chain } from "./chain.ts";

const abi = parseAbi([
  "function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)",
]);

export interface Cancellation {
  readonly authorizer: Address;
  /** Who signs for the authorizer: itself, or the owner of a smart wallet. */
  readonly signer: PrivateKeyAccount;
  readonly nonce: Hex;
}

export async function cancelAuthorization(
  chain: Chain,
  { authorizer, signer, nonce }: Cancellation,
): Promise<void> {
  const signature = await signer.signTypedData({
    domain: {
      ...chain.network.asset.eip712,
      chainId: chain.chainId,
      verifyingContract: chain.asset,
    },
    types: {
      CancelAuthorization: [
        { name: "authorizer", type: "address" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType: "CancelAuthorization",
    message: { authorizer, nonce },
  });
  const data = encodeFunctionData({ abi, args: [authorizer, nonce, signature] });
  await chain.submit(chain.asset, data);
}
