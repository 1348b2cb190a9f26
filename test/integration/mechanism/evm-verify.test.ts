import {
  parseAbi,
  encodeFunctionData,
  parseSignature,
  serializeErc6492Signature,
  type Address,
  type Hex,
} from "viem";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEvmMechanism, type EvmMechanismOptions } from "../../../src/mechanism/evm/evm.ts";
import { cancelAuthorization } from "../../support/cancellation.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { delegation, twoFacedCode } from "../../support/two-faced-wallet.ts";
import {
  freshAccount,
  requirementsFor,
  signPayment,
  type EvmPayment,
  type FreshAccount,
  type SignOptions,
} from "../../support/payer.ts";

const never = new AbortController().signal;
const unixNow = () => Math.floor(Date.now() / 1000);

let chain: Chain;
let calls: string[] = [];
let evm: ReturnType<typeof mechanism>;
let payer: FreshAccount;
const payee = freshAccount();
const requirements = requirementsFor("base-sepolia", { payTo: payee.address });
const signer = freshAccount();

function mechanism(members: Partial<EvmMechanismOptions> = {}) {
  return createEvmMechanism({
    network: chain.network,
    assets: [chain.network.asset],
    rpcUrls: [chain.rpcUrl],
    keys: [signer.privateKey],
    clock: unixNow,
    allowPayTo: [payee.address],
    observer: (method) => calls.push(method),
    ...members,
  });
}

beforeAll(async () => {
  chain = await startChain();
  evm = mechanism();
  // As at the start of a process: the endpoint shows its chain once.
  await evm.probe(never);
  // So do the connections for what is not proven, before the first such payment.
  await verify(
    await signPayment({
      account: freshAccount().account,
      requirements,
      overrides: { from: freshAccount().address },
    }),
  );
});

afterAll(async () => {
  await evm.close();
  await chain.stop();
});

beforeEach(async () => {
  calls = [];
  payer = freshAccount();
  await chain.fund(payer.address, 10_000n);
});

/** Checks and inspects a payment: "valid", or the code and detail of its refusal. */
async function verify(payment: EvmPayment, by = evm, wanted = requirements): Promise<string> {
  const request = { paymentPayload: payment, paymentRequirements: wanted };
  const checked = by.check(request, unixNow());
  if (!checked.ok) return `${checked.error.code}: ${checked.error.detail}`;
  const inspected = await by.inspect(checked.value, never);
  return inspected.ok ? "valid" : `${inspected.error.code}: ${inspected.error.detail}`;
}

function sign(options: Partial<SignOptions> = {}): Promise<EvmPayment> {
  return signPayment({ account: payer.account, requirements, ...options });
}

function withSignature(payment: EvmPayment, signature: Hex): EvmPayment {
  return { ...payment, payload: { ...payment.payload, signature } };
}

/** As wallets' programs write it that cannot know whether the wallet is deployed (ERC-6492). */
function wrapped(payment: EvmPayment): EvmPayment {
  const signature = serializeErc6492Signature({
    address: "0x0BA5ED0c6AA8c49038F819E587E2633c4A9F428a",
    data: "0x3ffba36f",
    signature: payment.payload.signature as Hex,
  });
  return withSignature(payment, signature);
}

describe("an EOA's payment", () => {
  test("is valid after exactly one call to the chain", async () => {
    expect(await verify(await sign())).toBe("valid");
    expect(calls).toEqual(["eth_call"]);
  });

  test("is valid down to the last atomic unit of the balance, and not one below", async () => {
    const dear = { ...requirements, maxAmountRequired: "10001" };
    const payment = await sign({ requirements: dear });
    expect(await verify(payment, evm, dear)).toBe(
      "insufficient_funds: the payer holds 10000 of 10001 atomic units ($0.01 of $0.010001)",
    );
    await chain.fund(payer.address, 1n);
    expect(await verify(payment, evm, dear)).toBe("valid");
  });

  test("is refused when its nonce was used", async () => {
    const payment = await sign();
    const { authorization, signature } = payment.payload;
    const { r, s, v } = parseSignature(signature as Hex);
    const abi = parseAbi([
      "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
    ]);
    const { from, to, value, validAfter, validBefore, nonce } = authorization;
    await chain.submit(
      chain.asset,
      encodeFunctionData({
        abi,
        args: [
          from as Address,
          to as Address,
          BigInt(value),
          BigInt(validAfter),
          BigInt(validBefore),
          nonce as Hex,
          Number(v),
          r,
          s,
        ],
      }),
    );
    expect(await verify(payment)).toMatch(
      /^insufficient_funds: .*; if you were charged for this, ask the seller$/,
    );
    await chain.fund(payer.address, 10_000n);
    expect(await verify(payment)).toBe(
      "invalid_transaction_state: the authorization's nonce is used or cancelled; if you were charged for this, ask the seller",
    );
  });

  test("is refused when its nonce was cancelled", async () => {
    const payment = await sign();
    const nonce = payment.payload.authorization.nonce as Hex;
    await cancelAuthorization(chain, { authorizer: payer.address, signer: payer.account, nonce });
    expect(await verify(payment)).toBe(
      "invalid_transaction_state: the authorization's nonce is used or cancelled; if you were charged for this, ask the seller",
    );
  });

  test("is refused with a signature that is not the payer's after one call, and a moment later after none", async () => {
    const stranger = freshAccount();
    const refused = "invalid_exact_evm_payload_signature: the signature is not the payer's";
    const forge = () => sign({ account: stranger.account, overrides: { from: payer.address } });
    expect(await verify(await forge())).toBe(refused);
    expect(calls).toEqual(["eth_call"]);
    expect(await verify(await forge())).toBe(refused);
    expect(calls).toEqual(["eth_call"]);
  });

  test("is refused without a call where no signature could make it good", async () => {
    const stranger = freshAccount();
    const now = unixNow();
    for (const fault of [
      { value: "1" },
      { to: stranger.address },
      { validBefore: String(now - 1) },
      { validAfter: String(now + 60) },
    ]) {
      const overrides = { from: chain.asset, ...fault };
      const forged = await sign({ account: stranger.account, overrides });
      expect(await verify(forged)).toMatch(/^invalid_exact_evm_payload_signature: /);
    }
    expect(calls).toEqual([]);
  });

  test("is refused after one call in the name of a contract that judges no signatures", async () => {
    const forged = await sign({ overrides: { from: chain.asset } });
    expect(await verify(forged)).toBe(
      "invalid_exact_evm_payload_signature: the signature is not the payer's",
    );
    expect(calls).toEqual(["eth_call"]);
  });

  test("is refused when the chain's clock is not in its window, though ours is", async () => {
    const later = String(unixNow() + 5_000);
    const payment = await sign({ overrides: { validAfter: later, validBefore: `${later}0` } });
    const request = { paymentPayload: payment, paymentRequirements: requirements };
    const checked = evm.check(request, unixNow() + 6_000);
    if (!checked.ok) throw new Error(checked.error.detail);
    expect(checked.value.fault).toBeNull();
    expect(await evm.inspect(checked.value, never)).toMatchObject({
      error: { code: "invalid_exact_evm_payload_authorization_valid_after" },
    });
    const over = await sign({ overrides: { validBefore: String(unixNow() - 50) } });
    const past = evm.check(
      { paymentPayload: over, paymentRequirements: requirements },
      unixNow() - 500,
    );
    if (!past.ok) throw new Error(past.error.detail);
    expect(await evm.inspect(past.value, never)).toMatchObject({
      error: { code: "invalid_exact_evm_payload_authorization_valid_before" },
    });
  });
});

describe("while the token is paused", () => {
  beforeEach(() => chain.pause());
  afterEach(() => chain.unpause());

  test("a payment is refused with the token's own words", async () => {
    expect(await verify(await sign())).toBe(
      "invalid_transaction_state: the token refuses the transfer: Pausable: paused",
    );
  });
});

describe("a blacklisted account", () => {
  const refused =
    "invalid_transaction_state: the token refuses the transfer: Blacklistable: account is blacklisted";

  test("cannot pay", async () => {
    await chain.setBlacklisted(payer.address, true);
    expect(await verify(await sign())).toBe(refused);
  });

  test("cannot be paid", async () => {
    await chain.setBlacklisted(payee.address, true);
    expect(await verify(await sign())).toBe(refused);
    await chain.setBlacklisted(payee.address, false);
    expect(await verify(await sign())).toBe("valid");
  });
});

describe("a smart wallet's payment (ERC-1271)", () => {
  let wallet: Address;
  beforeEach(async () => {
    wallet = await chain.deployWallet(payer.address);
    await chain.fund(wallet, 10_000n);
  });

  test("is valid when the wallet accepts its owner's signature", async () => {
    expect(await verify(await sign({ overrides: { from: wallet } }))).toBe("valid");
    // The last one simulates what would be sent, with its fees.
    const fees = ["eth_getBlockByNumber", "eth_maxPriorityFeePerGas"];
    expect(calls).toEqual(["eth_call", ...fees, "eth_call"]);
  });

  test("is refused when the wallet does not accept the signature", async () => {
    const stranger = freshAccount();
    const forged = await sign({ account: stranger.account, overrides: { from: wallet } });
    expect(await verify(forged)).toMatch(/^invalid_exact_evm_payload_signature: /);
  });

  test("is valid in what ERC-6492 wraps its signature in, and refused in what is not so", async () => {
    expect(await verify(await sign({ overrides: { from: wallet }, corrupt: wrapped }))).toBe(
      "valid",
    );
    const odd = await sign({
      overrides: { from: wallet },
      corrupt: (payment) => withSignature(payment, `0x${"64".repeat(70)}${"6492".repeat(16)}`),
    });
    expect(await verify(odd)).toMatch(/^invalid_exact_evm_payload_signature: /);
    const stranger = freshAccount();
    const forged = { account: stranger.account, overrides: { from: wallet }, corrupt: wrapped };
    expect(await verify(await sign(forged))).toMatch(/^invalid_exact_evm_payload_signature: /);
  });

  test("is refused before it is deployed, and says so", async () => {
    const { address: from } = freshAccount();
    const corrupt = (each: EvmPayment) => wrapped(withSignature(each, `0x${"11".repeat(96)}`));
    expect(await verify(await sign({ overrides: { from }, corrupt }))).toMatch(
      /^invalid_exact_evm_payload_signature: .* a smart wallet pays once it is deployed$/,
    );
  });

  test("is refused for its signature before its balance", async () => {
    const poor = await chain.deployWallet(payer.address);
    const stranger = freshAccount();
    const forged = await sign({ account: stranger.account, overrides: { from: poor } });
    expect(await verify(forged)).toMatch(/^invalid_exact_evm_payload_signature: /);
    expect(await verify(await sign({ overrides: { from: poor } }))).toMatch(
      /^insufficient_funds: /,
    );
  });

  test("is valid some seconds after its address was seen without code", async () => {
    let now = unixNow();
    const later = mechanism({ clock: () => now });
    const code = await chain.rpc("eth_getCode", [wallet, "latest"]);
    await chain.rpc("anvil_setCode", [wallet, "0x"]);
    const payment = await sign({ overrides: { from: wallet } });
    const refused = "invalid_exact_evm_payload_signature: the signature is not the payer's";
    expect(await verify(payment, later)).toBe(refused);
    await chain.rpc("anvil_setCode", [wallet, code]);
    now += 9;
    expect(await verify(payment, later)).toBe(refused);
    now += 1;
    expect(await verify(payment, later)).toBe("valid");
    await later.close();
  });

  test("is refused for a fault of its own without a call", async () => {
    const little = await sign({ overrides: { from: wallet, value: "9999" } });
    expect(await verify(little)).toMatch(
      /^invalid_exact_evm_payload_signature: .*: the authorization pays less than 10000 atomic units \(\$0\.01\)$/,
    );
    expect(calls).toEqual([]);
  });

  test("is valid also when the wallet takes any signature", async () => {
    await chain.rpc("anvil_setCode", [wallet, twoFacedCode({ sign: freshAccount().address })]);
    expect(await verify(await sign({ overrides: { from: wallet } }))).toBe("valid");
  });

  test("may carry a signature of any length", async () => {
    const long = await sign({
      overrides: { from: wallet },
      corrupt: (payment) => ({
        ...payment,
        payload: { ...payment.payload, signature: `0x${"ab".repeat(3_000)}` },
      }),
    });
    expect(await verify(long)).toMatch(/^invalid_exact_evm_payload_signature: /);
  });

  test("is refused when checking the signature would burn all the gas", async () => {
    // JUMPDEST, PUSH1 0, JUMP: an endless loop.
    await chain.rpc("anvil_setCode", [wallet, "0x5b600056"]);
    expect(await verify(await sign({ overrides: { from: wallet } }))).toMatch(
      /^invalid_(?:transaction_state|exact_evm_payload_signature): /,
    );
  });
});

test("a delegated EOA (EIP-7702) is judged by its delegate's code", async () => {
  const code = await chain.rpc("eth_getCode", [await chain.deployWallet(payer.address), "latest"]);
  const delegate = freshAccount().address;
  await chain.rpc("anvil_setCode", [delegate, code]);
  await chain.rpc("anvil_setCode", [payer.address, `0xef0100${delegate.slice(2)}`]);
  expect(await verify(await sign())).toBe("valid");
  await chain.rpc("anvil_setCode", [delegate, "0x00"]);
  expect(await verify(await sign())).toMatch(/^invalid_exact_evm_payload_signature: /);
});

test("a payer of whom the token does not say that there is no code is asked for it", async () => {
  // The nonce that is cancelled in each simulation.
  const nonce: Hex = `0x${"f".repeat(64)}`;
  const { account, address } = payer;
  await cancelAuthorization(chain, { authorizer: address, signer: account, nonce });
  const payment = await sign();
  expect(await verify(payment)).toBe("valid");
  expect(calls).toEqual(["eth_call", "eth_getCode"]);
});

test.each(["origin", "gas price"] as const)(
  "a delegated EOA whose code knows a simulation by its %s is refused",
  async (tell) => {
    const delegate = freshAccount().address;
    await chain.rpc("anvil_setCode", [delegate, twoFacedCode(tell)]);
    await chain.rpc("anvil_setCode", [payer.address, delegation(delegate)]);
    // As an account that cannot pay nothing can be simulated: that is found out before it is signed.
    expect(await verify(await sign())).toBe("valid");
    await chain.fund(signer.address, 0n, 10n ** 18n);
    expect(await verify(await sign())).toMatch(/^invalid_/);
    await chain.rpc("anvil_setBalance", [signer.address, "0x0"]);
  },
);

describe("an asset", () => {
  test.each([
    ["without code", () => freshAccount().address],
    ["that is no EIP-3009 token", () => "0xcA11bde05977b3631167028862bE2a173976CA11"],
  ])("%s is an invalid_payment_requirements", async (_title, find) => {
    const asset = { ...chain.network.asset, address: find() };
    const wanted = { ...requirements, asset: asset.address };
    const other = mechanism({ assets: [asset] });
    const payment = await sign({ requirements: wanted });
    expect(await verify(payment, other, wanted)).toBe(
      `invalid_payment_requirements: there is no EIP-3009 token at ${asset.address}`,
    );
    await other.close();
  });
});

test("a chain without Multicall3 is an operational fault, not the payment's", async () => {
  const at = "0xcA11bde05977b3631167028862bE2a173976CA11";
  const code = await chain.rpc("eth_getCode", [at, "latest"]);
  await chain.rpc("anvil_setCode", [at, "0x"]);
  await expect(verify(await sign())).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  await chain.rpc("anvil_setCode", [at, code]);
});

test("a chain that cannot be reached is an operational fault", async () => {
  const lost = mechanism({ rpcUrls: ["http://127.0.0.1:1"] });
  await expect(verify(await sign(), lost)).rejects.toMatchObject({ code: "CHAIN_UNREACHABLE" });
  await lost.close();
});

async function findings(members: Partial<EvmMechanismOptions> = {}): Promise<string[]> {
  const subject = mechanism(members);
  const found = await subject.probe(never);
  await subject.close();
  return found.map(({ level, message }) => `${level}: ${message}`);
}

describe("probing", () => {
  beforeEach(() => chain.fund(signer.address, 0n, 10n ** 18n));

  test("finds nothing on the right chain", async () => {
    expect(await findings()).toEqual([]);
  });

  test("finds another chain behind the endpoint, naming network and both ids", async () => {
    const other = await startChain({ chainId: 31_337 });
    expect(await findings({ rpcUrls: [other.rpcUrl] })).toEqual([
      `error: ${new URL(other.rpcUrl).host} serves chain 31337, but base-sepolia is chain 84532`,
    ]);
    await other.stop();
  });

  test("finds another token domain and other decimals", async () => {
    const eip712 = { name: "USD Coin", version: "2" };
    const asset = { ...chain.network.asset, eip712, decimals: 18 };
    expect(await findings({ assets: [asset] })).toEqual([
      `error: base-sepolia: the token USDC at ${chain.asset} has another EIP-712 domain than name "USD Coin", version "2"`,
      `error: base-sepolia: the token USDC at ${chain.asset} has 6 decimals, not 18`,
    ]);
  });

  test("finds a token that does not exist, and a contract that is none", async () => {
    const nowhere = freshAccount().address;
    const absent = { ...chain.network.asset, address: nowhere };
    const multicall = "0xcA11bde05977b3631167028862bE2a173976CA11";
    const wrong = { ...chain.network.asset, address: multicall };
    expect(await findings({ assets: [absent, wrong] })).toEqual([
      `error: base-sepolia: the token USDC at ${nowhere} does not exist`,
      `error: base-sepolia: the token USDC at ${multicall} has no DOMAIN_SEPARATOR(), so it is no EIP-3009 token`,
      `error: base-sepolia: the token USDC at ${multicall} has no decimals, not 6`,
    ]);
  });

  test("finds an account that cannot pay fees, and one that soon cannot", async () => {
    await chain.fund(signer.address, 0n, 0n);
    expect(await findings()).toEqual([
      `error: base-sepolia: ${signer.address} holds 0 ETH and cannot pay network fees; send it a little ETH`,
    ]);
    await chain.fund(signer.address, 0n, 10n ** 15n);
    const [low] = await findings();
    expect(low).toMatch(
      /^warning: base-sepolia: 0x\w{40} holds 0\.001 ETH, enough for about \d settlements$/,
    );
  });

  test("finds a missing Multicall3", async () => {
    const at = "0xcA11bde05977b3631167028862bE2a173976CA11";
    const code = await chain.rpc("eth_getCode", [at, "latest"]);
    await chain.rpc("anvil_setCode", [at, "0x"]);
    expect(await findings()).toEqual([
      `error: base-sepolia: there is no Multicall3 at ${at}; payments cannot be verified`,
    ]);
    await chain.rpc("anvil_setCode", [at, code]);
  });

  test("finds a clock that is too far from the chain's", async () => {
    const [slow] = await findings({ clock: () => unixNow() - 100 });
    expect(slow).toMatch(
      /^error: base-sepolia: clock skew: our clock is (?:99|10[01]) s behind the chain's$/,
    );
    const [fast] = await findings({ clock: () => unixNow() + 100 });
    expect(fast).toMatch(/our clock is (?:99|100|101) s ahead of the chain's$/);
    expect(await findings({ clock: () => unixNow() + 25 })).toEqual([]);
  });

  test("throws when the endpoint cannot be reached", async () => {
    const lost = mechanism({ rpcUrls: ["http://127.0.0.1:1"] });
    await expect(lost.probe(never)).rejects.toMatchObject({ code: "CHAIN_UNREACHABLE" });
    await lost.close();
  });
});

test("every chain the support can start has the real token of its network", async () => {
  for (const network of ["base", "avalanche", "polygon", "sei", "iotex"] as const) {
    const other = await startChain({ network });
    expect(await other.balanceOf(payee.address)).toBe(0n);
    await other.stop();
  }
});
