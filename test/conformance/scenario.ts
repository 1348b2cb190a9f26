/** A case made real: the chain is brought into its state, and the payment is signed, then changed. */
import { randomBytes } from "node:crypto";
import { encodeFunctionData, parseAbi, toHex, type Address, type Hex } from "viem";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { cancelAuthorization } from "../support/cancellation.ts";
import { MULTICALL3_ADDRESS, type Chain } from "../support/chain.ts";
import { walletCode } from "../support/erc1271-wallet.ts";
import {
  freshAccount,
  signPayment,
  type EvmPayment,
  type FreshAccount,
  type SignOptions,
} from "../support/payer.ts";
import type { ConformanceCase } from "./conformance-case.ts";
import { evaluate, evaluateText, expandNested, type Names } from "./references.ts";
import { spoilSignature } from "./signature-faults.ts";

/** Where a case is played. */
export interface Stage {
  readonly chain: Chain;
  /** What has to be paid, unless the case asks for something else. */
  readonly requirements: PaymentRequirements;
  /** Unix seconds, as the facilitator's clock says. */
  readonly now: number;
  /** The only payee of the facilitator `one payee`. */
  readonly listed: Address;
}

export interface Scenario {
  readonly payer: Address;
  readonly payee: string;
  /** As signed, before anything was changed. */
  readonly payment: EvmPayment;
  readonly requirements: PaymentRequirements;
  /** JSON of the payment payload as it is sent. */
  readonly paymentPayload: string;
  /** The facilitator's request body. */
  readonly body: string;
  /** What payment and requirements name as their networks; "" where there is none. */
  readonly networks: readonly string[];
  readonly names: Names;
}

/** Somebody who is no party to any payment. */
const STRANGER = freshAccount();

const token = parseAbi([
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
]);

/** Plays everything up to the request; `undoing` gets what has to be undone for the next case. */
export async function enact(
  each: ConformanceCase,
  stage: Stage,
  undoing: AsyncDisposableStack,
): Promise<Scenario> {
  const owner = freshAccount();
  const payer = await openPayer(each.given.payer, owner, stage.chain);
  const known: Names = {
    payer,
    stranger: STRANGER.address,
    listed: stage.listed,
    asset: stage.requirements.asset,
    now: String(stage.now),
  };
  const requirements = ask(each, stage.requirements, known);
  const { payTo: payee, maxAmountRequired: price } = requirements;
  const names = { ...known, payee, price };
  const authorize = {
    account: each.sign.by === "payer" ? owner.account : STRANGER.account,
    requirements,
    now: stage.now,
    chainId: stage.chain.chainId,
    overrides: { from: payer, nonce: toHex(randomBytes(32)), ...signedMembers(each, names) },
  };
  const payment = await sign(each, authorize, names);
  await arrange(each, { stage, payment, owner, names }, undoing);
  return { payer, payee, payment, requirements, ...write(each, payment, requirements, names) };
}

/** Takes a contract's code away until the stack is disposed. */
export async function removeCode(
  missing: ConformanceCase["given"]["missing"],
  chain: Chain,
  undoing: AsyncDisposableStack,
): Promise<void> {
  if (missing === undefined) return;
  const address = missing === "asset" ? chain.asset : MULTICALL3_ADDRESS;
  const code = await chain.rpc("eth_getCode", [address, "latest"]);
  await chain.rpc("anvil_setCode", [address, "0x"]);
  undoing.defer(async () => {
    await chain.rpc("anvil_setCode", [address, code]);
  });
}

/** The account that pays. */
async function openPayer(
  kind: ConformanceCase["given"]["payer"],
  owner: FreshAccount,
  chain: Chain,
): Promise<Address> {
  if (kind === "wallet") return chain.deployWallet(owner.address);
  if (kind === "delegated") {
    await chain.rpc("anvil_setCode", [owner.address, walletCode(STRANGER.address)]);
  }
  return owner.address;
}

function ask(each: ConformanceCase, base: PaymentRequirements, names: Names): PaymentRequirements {
  const { network, maxAmountRequired, asset, payTo, ...rest } = each.ask;
  const texts = Object.entries({ network, maxAmountRequired, asset, payTo }).flatMap(
    ([key, value]) => (value === undefined ? [] : [[key, evaluateText(value, names)]]),
  );
  return { ...base, ...rest, ...Object.fromEntries(texts) };
}

/** Members of the authorization that the case chooses. */
function signedMembers({ sign }: ConformanceCase, names: Names): Record<string, string> {
  const { from, to, value, validAfter, validBefore, nonce } = sign;
  const chosen = Object.entries({ from, to, value, validAfter, validBefore, nonce });
  return Object.fromEntries(
    chosen.flatMap(([key, text]) => (text === undefined ? [] : [[key, evaluateText(text, names)]])),
  );
}

async function sign(
  each: ConformanceCase,
  authorize: SignOptions & { readonly chainId: number },
  names: Names,
): Promise<EvmPayment> {
  const { name, version, chainId = authorize.chainId, verifyingContract } = each.sign.domain;
  const { asset } = authorize.requirements;
  return signPayment({
    ...authorize,
    chainId,
    requirements: {
      ...authorize.requirements,
      asset: verifyingContract === undefined ? asset : evaluateText(verifyingContract, names),
    },
    domain: {
      ...(name === undefined ? {} : { name }),
      ...(version === undefined ? {} : { version }),
    },
    ...(each.sign.type === undefined ? {} : { primaryType: each.sign.type }),
    corrupt: (payment) => {
      if (each.signature === undefined) return payment;
      const signature = spoilSignature(payment.payload.signature as Hex, each.signature);
      return { ...payment, payload: { ...payment.payload, signature } };
    },
  });
}

interface Cast {
  readonly stage: Stage;
  readonly payment: EvmPayment;
  readonly owner: FreshAccount;
  readonly names: Names;
}

/** Balance, nonce, black list and pause, as the case says. */
async function arrange(
  { given }: ConformanceCase,
  cast: Cast,
  undoing: AsyncDisposableStack,
): Promise<void> {
  const { chain } = cast.stage;
  const { names } = cast;
  const payer = names["payer"] as Address;
  await chain.fund(payer, BigInt(evaluateText(given.balance, names)));
  if (given.nonce === "used") await useNonce(cast, cast.owner, payer);
  if (given.nonce === "cancelled") await cancelNonce(cast, payer);
  if (given.nonce === "used by another") {
    await chain.fund(STRANGER.address, 1n);
    await useNonce(cast, STRANGER, STRANGER.address);
  }
  if (given.blacklisted !== undefined) {
    const address = names[given.blacklisted] as Address;
    await chain.setBlacklisted(address, true);
    undoing.defer(() => chain.setBlacklisted(address, false));
  }
  if (given.paused === true) {
    await chain.pause();
    undoing.defer(() => chain.unpause());
  }
}

/** One atomic unit moves under the payment's nonce. */
async function useNonce(cast: Cast, by: FreshAccount, from: Address): Promise<void> {
  const { chain, requirements } = cast.stage;
  const { nonce } = cast.payment.payload.authorization;
  const { payload } = await signPayment({
    account: by.account,
    requirements: { ...requirements, payTo: freshAccount().address, maxAmountRequired: "1" },
    overrides: { from, nonce },
  });
  const { to, value, validAfter, validBefore } = payload.authorization;
  const data = encodeFunctionData({
    abi: token,
    functionName: "transferWithAuthorization",
    args: [
      from,
      to as Address,
      BigInt(value),
      BigInt(validAfter),
      BigInt(validBefore),
      nonce as Hex,
      payload.signature as Hex,
    ],
  });
  await chain.submit(chain.asset, data);
}

async function cancelNonce({ stage, payment, owner }: Cast, authorizer: Address): Promise<void> {
  const nonce = payment.payload.authorization.nonce as Hex;
  await cancelAuthorization(stage.chain, { authorizer, signer: owner.account, nonce });
}

/** The request as text, after `set`, `remove`, `rewrite` and `body`. */
function write(
  each: ConformanceCase,
  payment: EvmPayment,
  requirements: PaymentRequirements,
  known: Names,
): Pick<Scenario, "paymentPayload" | "body" | "networks" | "names"> {
  const names = { ...known, signature: payment.payload.signature };
  const request: Record<string, unknown> = structuredClone({
    x402Version: payment.x402Version,
    paymentPayload: payment,
    paymentRequirements: requirements,
  });
  change(request, each, names);
  const texts = new Map(
    Object.entries(request).map(([key, value]) => [key, expandNested(JSON.stringify(value))]),
  );
  const paymentPayload = rewrite(texts.get("paymentPayload") ?? "", each.rewrite);
  if (texts.has("paymentPayload")) texts.set("paymentPayload", paymentPayload);
  const members = Array.from(texts, ([key, text]) => `${JSON.stringify(key)}:${text}`);
  const body = each.body
    .replaceAll("$request", () => `{${members.join(",")}}`)
    .replaceAll("$paymentPayload", () => paymentPayload)
    .replaceAll("$paymentRequirements", () => texts.get("paymentRequirements") ?? "");
  const networks = each.body.includes("$")
    ? [networkOf(request["paymentPayload"]), networkOf(request["paymentRequirements"])]
    : [""];
  return { paymentPayload, body, networks, names };
}

/** Sets and removes members of a JSON value. */
export function change(
  root: object,
  { set, remove }: Pick<ConformanceCase, "set" | "remove">,
  names: Names,
): void {
  for (const [pointer, value] of Object.entries(set)) {
    const [parent, key] = locate(root, pointer);
    // By definition, not assignment: `__proto__` has to become a member like any other.
    const member = { value: evaluate(value, names), enumerable: true, configurable: true };
    Object.defineProperty(parent, key, { ...member, writable: true });
  }
  for (const pointer of remove) {
    const [parent, key] = locate(root, pointer);
    if (!Reflect.has(parent, key)) throw new Error(`${pointer} is not there to remove`);
    Reflect.deleteProperty(parent, key);
  }
}

function networkOf(named: unknown): string {
  const network: unknown = Object(named).network;
  return typeof network === "string" ? network : "";
}

export function rewrite(json: string, replacements: Readonly<Record<string, string>>): string {
  let text = json;
  for (const [from, to] of Object.entries(replacements)) {
    if (!text.includes(from)) throw new Error(`${from} is not in the payload to be rewritten`);
    text = text.replace(from, () => to);
  }
  return text;
}

/** The object that a JSON pointer leads into, and its last token (RFC 6901). */
export function locate(root: object, pointer: string): [parent: object, key: string] {
  const keys = pointer
    .slice(1)
    .split("/")
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = keys.pop() ?? "";
  let parent: object = root;
  for (const key of keys) {
    const next: unknown = Reflect.get(parent, key);
    if (typeof next !== "object" || next === null) throw new Error(`${pointer} leads nowhere`);
    parent = next;
  }
  return [parent, last];
}
