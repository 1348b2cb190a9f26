import * as fc from "fast-check";
import { encodeFunctionData, hashTypedData, parseAbi, toEventSelector, type Hex } from "viem";
import { describe, expect, test } from "vitest";
import { uintWord, addressWord } from "../../../../src/mechanism/evm/abi.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
  authorizationDigest,
  authorizationStateCall,
  balanceOfCall,
  createToken,
  DECIMALS_CALL,
  DOMAIN_SEPARATOR_CALL,
  TRANSFER_EVENT,
  transferCall,
} from "../../../../src/mechanism/evm/token.ts";
import { NETWORK_NAMES, networkOf } from "../../../../src/x402/network.ts";

const abi = parseAbi([
  "function balanceOf(address account)",
  "function authorizationState(address authorizer, bytes32 nonce)",
  "function DOMAIN_SEPARATOR()",
  "function decimals()",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
]);

const fixed = (size: number) =>
  fc
    .uint8Array({ minLength: size, maxLength: size })
    .map((bytes): Hex => `0x${Buffer.from(bytes).toString("hex")}`);
const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
const authorization = fc.record({
  from: fixed(20),
  to: fixed(20),
  value: uint256,
  validAfter: uint256,
  validBefore: uint256,
  nonce: fixed(32),
});
type Authorization = typeof authorization extends fc.Arbitrary<infer Value> ? Value : never;

function wordsOf({ from, to, value, validAfter, validBefore, nonce }: Authorization): string {
  const numbers = uintWord(value) + uintWord(validAfter) + uintWord(validBefore);
  return addressWord(from) + addressWord(to) + numbers + nonce.slice(2);
}

const evmNetworks = NETWORK_NAMES.map(networkOf).filter((network) => network.kind === "evm");

describe("a token", () => {
  test.each(evmNetworks.map((network) => [network.name, network] as const))(
    "on %s has the domain separator that the network table states",
    (_name, network) => {
      const { domainSeparator } = createToken(network.asset, network.chainId);
      expect(`0x${Buffer.from(domainSeparator).toString("hex")}`).toBe(
        network.asset.domainSeparator,
      );
    },
  );

  test("has the digest of a general typed-data implementation for every authorization", () => {
    const domain = fc.record({
      // The reference leaves empty members out of the domain type, which no token does.
      name: fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }),
      version: fc.string({ minLength: 1, maxLength: 5 }),
      chainId: fc.integer({ min: 1, max: 2 ** 40 }),
      verifyingContract: fixed(20),
    });
    fc.assert(
      fc.property(domain, authorization, (separate, message) => {
        const { name, version, chainId, verifyingContract } = separate;
        const asset = {
          symbol: "T",
          address: verifyingContract,
          decimals: 6,
          eip712: { name, version },
        };
        const expected = hashTypedData({
          domain: separate,
          types: {
            TransferWithAuthorization: [
              { name: "from", type: "address" },
              { name: "to", type: "address" },
              { name: "value", type: "uint256" },
              { name: "validAfter", type: "uint256" },
              { name: "validBefore", type: "uint256" },
              { name: "nonce", type: "bytes32" },
            ],
          },
          primaryType: "TransferWithAuthorization",
          message,
        });
        const digest = authorizationDigest(createToken(asset, chainId), wordsOf(message));
        expect(`0x${Buffer.from(digest).toString("hex")}`).toBe(expected);
      }),
    );
  });
});

describe("call data is that of a general ABI encoder", () => {
  test("for the reads", () => {
    fc.assert(
      fc.property(fixed(20), fixed(32), (account, nonce) => {
        expect(`0x${balanceOfCall(account)}`).toBe(
          encodeFunctionData({ abi, functionName: "balanceOf", args: [account] }),
        );
        expect(`0x${authorizationStateCall(account, nonce)}`).toBe(
          encodeFunctionData({ abi, functionName: "authorizationState", args: [account, nonce] }),
        );
      }),
    );
    expect(`0x${DOMAIN_SEPARATOR_CALL}`).toBe(
      encodeFunctionData({ abi, functionName: "DOMAIN_SEPARATOR" }),
    );
    expect(`0x${DECIMALS_CALL}`).toBe(encodeFunctionData({ abi, functionName: "decimals" }));
  });

  test("for the transfer with v, r and s", () => {
    fc.assert(
      fc.property(authorization, fixed(32), fixed(32), fc.nat(255), (members, r, s, v) => {
        const { from, to, value, validAfter, validBefore, nonce } = members;
        const signature = r.slice(2) + s.slice(2) + v.toString(16).padStart(2, "0");
        expect(`0x${transferCall(wordsOf(members), signature, true)}`).toBe(
          encodeFunctionData({
            abi,
            functionName: "transferWithAuthorization",
            args: [from, to, value, validAfter, validBefore, nonce, v, r, s],
          }),
        );
      }),
    );
  });

  test("for the transfer with a signature of any length", () => {
    const signature = fc
      .uint8Array({ maxLength: 300 })
      .map((bytes): Hex => `0x${Buffer.from(bytes).toString("hex")}`);
    fc.assert(
      fc.property(authorization, signature, (members, packed) => {
        const { from, to, value, validAfter, validBefore, nonce } = members;
        expect(`0x${transferCall(wordsOf(members), packed.slice(2), false)}`).toBe(
          encodeFunctionData({
            abi,
            functionName: "transferWithAuthorization",
            args: [from, to, value, validAfter, validBefore, nonce, packed],
          }),
        );
      }),
    );
  });
});

test("the events have the topics of their signatures", () => {
  expect(TRANSFER_EVENT).toBe(toEventSelector("Transfer(address,address,uint256)"));
  expect(AUTHORIZATION_USED_EVENT).toBe(toEventSelector("AuthorizationUsed(address,bytes32)"));
  expect(AUTHORIZATION_CANCELED_EVENT).toBe(
    toEventSelector("AuthorizationCanceled(address,bytes32)"),
  );
});
