/**
 * What a signature that is not good was made for: buyers' programs mistake a chain, the token's name or its version, and
 * their signatures are the payer's own under that EIP-712 domain. Looked for only where the chain has refused it.
 */
import { NETWORK_NAMES, networkOf, type EvmNetwork } from "../../x402/network.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { secp256k1 } from "./signature.ts";
import { authorizationDigest, createToken, type Token } from "./token.ts";
import { SIGNATURE_DIGITS } from "./written-signature.ts";

interface NearMiss {
  readonly token: Token;
  readonly said: string;
}

const NAMES = ["USD Coin", "USDC"];
const VERSIONS = ["1", "2"];
const NETWORKS = NETWORK_NAMES.map(networkOf).filter(
  (network): network is EvmNetwork => network.kind === "evm",
);
const NO_KEYS =
  "a key's has 65 bytes, and there is no code at the payer's address: a smart wallet pays once it is deployed";
/** Some two dozen of each token, each a recovery: less than a millisecond for all. */
const nearMisses = new WeakMap<Token, readonly NearMiss[]>();

/** Undefined where it is no such mistake. */
export function nearMissOf(authorization: EvmCheckedAuthorization): string | undefined {
  const { token, words, from, signature } = authorization;
  if (signature.length !== SIGNATURE_DIGITS) return NO_KEYS;
  const bytes = Buffer.from(signature, "hex");
  let misses = nearMisses.get(token);
  if (misses === undefined) nearMisses.set(token, (misses = missesOf(token)));
  return misses.find((miss) => {
    return secp256k1.recover(authorizationDigest(miss.token, words), bytes) === from;
  })?.said;
}

function missesOf({ asset, chainId }: Token): readonly NearMiss[] {
  const { name, version } = asset.eip712;
  const others = NETWORKS.filter((network) => network.chainId !== chainId);
  const named = (eip712: typeof asset.eip712): Token => createToken({ ...asset, eip712 }, chainId);
  return [
    ...others.flatMap((other): NearMiss[] => {
      const said = `signed for chain ${other.chainId}; this is ${chainId}`;
      return [
        { token: createToken(asset, other.chainId), said },
        { token: createToken(other.asset, other.chainId), said },
      ];
    }),
    ...NAMES.filter((other) => other !== name).map((other) => ({
      token: named({ name: other, version }),
      said: `signed for token name "${other}"; this one's is "${name}"`,
    })),
    ...VERSIONS.filter((other) => other !== version).map((other) => ({
      token: named({ name, version: other }),
      said: `signed for token version "${other}"; this one's is "${version}"`,
    })),
    ...others.map((other) => ({
      token: createToken({ ...asset, address: other.asset.address }, chainId),
      said: `signed for the token ${other.asset.address}; this one is ${asset.address}`,
    })),
  ];
}
