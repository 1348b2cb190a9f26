/** The official x402 clients and facilitators find on the local Solana node all that they call. */
import { generateKeyPairSync } from "node:crypto";
import { createKeyPairSignerFromBytes, type KeyPairSigner } from "@solana/kit";
import { toFacilitatorSvmSigner } from "@x402/svm";
import { ExactSvmScheme as Client } from "@x402/svm/exact/client";
import { ExactSvmScheme as Facilitator } from "@x402/svm/exact/facilitator";
import { ExactSvmSchemeV1 as ClientV1 } from "@x402/svm/exact/v1/client";
import { ExactSvmSchemeV1 as FacilitatorV1 } from "@x402/svm/exact/v1/facilitator";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createPaymentHeader } from "x402/client";
import { settle, verify } from "x402/facilitator";
import { exact } from "x402/schemes";
import { createSigner, type PaymentRequirements } from "x402/types";
import { fromBase58, toBase58 } from "../../support/solana/base58.ts";
import { USDC_DEVNET } from "../../support/solana/set-up.ts";
import { startSolanaNode, type SolanaNode } from "../../support/solana/solana-node.ts";

const AMOUNT = 1_000n;
/** The v1 client takes a plain name where its types want the CAIP-2 form. */
const V1_NETWORK = "solana-devnet" as `${string}:${string}`;
const DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";

interface Key {
  readonly secret: string;
  readonly signer: KeyPairSigner;
}

let node: SolanaNode;
let buyer: Key;
let seller: Key;
let feePayer: Key;

beforeEach(async () => {
  node = await startSolanaNode({ slotMs: 20 });
  [buyer, seller, feePayer] = await Promise.all([freshKey(), freshKey(), freshKey()]);
  node.fundSol(feePayer.signer.address, 1_000_000_000n);
  await node.fundToken({ mint: USDC_DEVNET, owner: buyer.signer.address, amount: 5n * AMOUNT });
  await node.fundToken({ mint: USDC_DEVNET, owner: seller.signer.address, amount: 0n });
});

afterEach(() => node.stop());

async function freshKey(): Promise<Key> {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const bytes = Buffer.concat([Buffer.from(d, "base64url"), Buffer.from(x, "base64url")]);
  const secret = toBase58(new Uint8Array(bytes));
  return { secret, signer: await createKeyPairSignerFromBytes(fromBase58(secret)) };
}

function feePaid(): { readonly feePayer: string } {
  return { feePayer: feePayer.signer.address };
}

function requirements(): PaymentRequirements {
  return {
    scheme: "exact",
    network: "solana-devnet",
    maxAmountRequired: String(AMOUNT),
    resource: "http://localhost/thing",
    description: "",
    mimeType: "",
    payTo: seller.signer.address,
    maxTimeoutSeconds: 60,
    asset: USDC_DEVNET,
    extra: feePaid(),
  };
}

test("x402 1.2.0: the client pays, the facilitator verifies, settles and confirms", async () => {
  const config = { svmConfig: { rpcUrl: node.rpcUrl } };
  const signer = await createSigner("solana-devnet", buyer.secret);
  const header = await createPaymentHeader(signer, 1, requirements(), config);
  const payment = exact.evm.decodePayment(header);
  const settler = await createSigner("solana-devnet", feePayer.secret);
  expect(await verify(settler, payment, requirements(), config)).toMatchObject({ isValid: true });
  const settled = await settle(settler, payment, requirements(), config);
  expect(settled).toMatchObject({ success: true, payer: buyer.signer.address });
  expect(await node.tokenBalanceOf(seller.signer.address, USDC_DEVNET)).toBe(AMOUNT);
  expect(node.count("signatureSubscribe")).toBe(1);
});

test("@x402/svm 2.27, version 1: the client pays, the facilitator settles and confirms", async () => {
  const { asset, payTo, maxTimeoutSeconds } = requirements();
  const terms = { asset, payTo, maxTimeoutSeconds, amount: String(AMOUNT), extra: feePaid() };
  const asked = { scheme: "exact", network: V1_NETWORK, maxAmountRequired: terms.amount, ...terms };
  const client = new ClientV1(buyer.signer, { rpcUrl: node.rpcUrl });
  const payment = { ...(await client.createPaymentPayload(1, asked)), accepted: asked };
  const signer = toFacilitatorSvmSigner(feePayer.signer, { defaultRpcUrl: node.rpcUrl });
  const facilitator = new FacilitatorV1(signer);
  expect(await facilitator.verify(payment, asked)).toMatchObject({ isValid: true });
  expect(await facilitator.settle(payment, asked)).toMatchObject({ success: true });
  expect(await node.tokenBalanceOf(seller.signer.address, USDC_DEVNET)).toBe(AMOUNT);
});

test("@x402/svm 2.27: the client pays, the facilitator verifies, settles and confirms", async () => {
  const asked = {
    scheme: "exact",
    network: DEVNET,
    asset: USDC_DEVNET,
    amount: String(AMOUNT),
    payTo: seller.signer.address,
    maxTimeoutSeconds: 60,
    extra: feePaid(),
  } as const;
  const client = new Client(buyer.signer, { rpcUrl: node.rpcUrl });
  const { payload } = await client.createPaymentPayload(2, asked);
  const signer = toFacilitatorSvmSigner(feePayer.signer, { defaultRpcUrl: node.rpcUrl });
  const facilitator = new Facilitator(signer);
  const payment = { x402Version: 2, accepted: asked, payload };
  expect(await facilitator.verify(payment, asked)).toMatchObject({ isValid: true });
  expect(await facilitator.settle(payment, asked)).toMatchObject({ success: true });
  expect(await node.tokenBalanceOf(seller.signer.address, USDC_DEVNET)).toBe(AMOUNT);
});
