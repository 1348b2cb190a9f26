/**
 * The real clients, run to the end over a network that answers one 402: what they decide has to be what the
 * rules say. Nothing of them is replaced but `fetch`, so schema, choice, limits and signing are theirs.
 */
import { createKeyPairSignerFromBytes } from "@solana/kit";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment as wrapFetchV2, x402Client } from "@x402/fetch";
import { registerExactSvmScheme } from "@x402/svm/exact/client";
import { ExactSvmSchemeV1 } from "@x402/svm/exact/v1/client";
import { AxiosError, create, type InternalAxiosRequestConfig } from "axios";
import * as fc from "fast-check";
import { privateKeyToAccount } from "viem/accounts";
import { beforeAll, describe, expect, test } from "vitest";
import { withPaymentInterceptor } from "x402-axios";
import * as axiosClient from "x402-axios";
import { createSigner, wrapFetchWithPayment } from "x402-fetch";
import { selectPaymentRequirements } from "x402/client";
import { PaymentRequirementsSchema } from "x402/types";
import {
  CLIENTS,
  walletsFor,
  type Verdict,
  type BuyerWallet,
} from "../../../../src/diagnosis/doctor/client-rules.ts";
import { NETWORK_NAMES, networkOf, type NetworkName } from "../../../../src/x402/network.ts";
import { encodeBase58 } from "../../../../src/x402/solana-address.ts";

const KEY = `0x${"5a".repeat(32)}` as const;
/** Nobody listens there: a client that gets so far has chosen, and is about to sign. */
const NOWHERE = "http://127.0.0.1:1";
const SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const SOLANA_SECRET = Buffer.from(SEED + PUBLIC, "hex");

/** Chosen: the offer that the client signed for, or would have with a node to ask. */
type Outcome = { readonly chosen: unknown } | { readonly error: string };
type Run = (accepts: readonly unknown[], wallet: BuyerWallet) => Promise<Outcome>;

function answer(accepts: readonly unknown[]) {
  return { x402Version: 1, error: "X-PAYMENT header is required", accepts };
}

/** What stands in the header that a client sends. */
function readHeader(header: string): Record<string, unknown> {
  return JSON.parse(atob(header));
}

function isNodeTrouble(error: unknown): boolean {
  const text = String(error) + String(Object(error).cause);
  return /fetch failed|ECONNREFUSED|HTTP error|Failed to fetch mint/i.test(text);
}

/** `selected`: what the client has chosen so far; `run`: throws, or resolves with the header it sends. */
async function settle(selected: () => unknown, run: () => Promise<unknown>): Promise<Outcome> {
  try {
    const header = await run();
    if (typeof header !== "string") return { error: "nothing was sent" };
    readHeader(header);
    return { chosen: selected() };
  } catch (error) {
    if (isNodeTrouble(error)) return { chosen: selected() };
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

/** A `fetch` that answers 402 once, and notes what it is paid with. */
function shop(accepts: readonly unknown[]) {
  const paid: (string | null)[] = [];
  const request: typeof fetch = async (input, init) => {
    const { headers } = input instanceof Request ? input : new Request(input, init);
    const header = headers.get("X-PAYMENT");
    if (header === null) return Response.json(answer(accepts), { status: 402 });
    paid.push(header);
    return new Response("paid");
  };
  return { paid, request };
}

let solanaSigner: Awaited<ReturnType<typeof createKeyPairSignerFromBytes>>;

beforeAll(async () => {
  solanaSigner = await createKeyPairSignerFromBytes(SOLANA_SECRET);
});

async function signerOf(wallet: BuyerWallet) {
  if (wallet.kind === "solana") return createSigner("solana-devnet", encodeBase58(SOLANA_SECRET));
  return wallet.chain === null ? privateKeyToAccount(KEY) : createSigner(wallet.chain, KEY);
}

const RUNS: Readonly<Record<string, Run>> = {
  "x402-fetch 1.2.0": async (accepts, wallet) => {
    const { paid, request } = shop(accepts);
    let selected: ReturnType<typeof selectPaymentRequirements> | undefined;
    const select: typeof selectPaymentRequirements = (...given) =>
      (selected = selectPaymentRequirements(...given));
    const signer = await signerOf(wallet);
    const config = { svmConfig: { rpcUrl: NOWHERE } };
    const pay = wrapFetchWithPayment(request, signer, undefined, select, config);
    return settle(
      () => selected,
      async () => {
        await pay("http://shop.example/");
        return paid[0];
      },
    );
  },
  "x402-axios 0.7.2": async (accepts, wallet) => {
    let selected: ReturnType<typeof selectPaymentRequirements> | undefined;
    let paid: unknown;
    const adapter = async (config: InternalAxiosRequestConfig) => {
      paid = config.headers.get("X-PAYMENT") ?? undefined;
      const status = paid === undefined ? 402 : 200;
      const response = {
        status,
        statusText: "",
        headers: {},
        config,
        data: paid === undefined ? answer(accepts) : "paid",
      };
      if (status === 402) throw new AxiosError("402", "402", config, undefined, response);
      return response;
    };
    const select = (...given: Parameters<typeof selectPaymentRequirements>) =>
      (selected = selectPaymentRequirements(...given));
    const signer =
      wallet.kind === "solana"
        ? await axiosClient.createSigner("solana-devnet", encodeBase58(SOLANA_SECRET))
        : wallet.chain === null
          ? privateKeyToAccount(KEY)
          : await axiosClient.createSigner(wallet.chain, KEY);
    const config = { svmConfig: { rpcUrl: NOWHERE } };
    const client = withPaymentInterceptor(create({ adapter }), signer, select, config);
    return settle(
      () => selected,
      async () => {
        await client.get("http://shop.example/");
        return paid;
      },
    );
  },
  "@x402/fetch 2.27.0": async (accepts, wallet) => {
    const { paid, request } = shop(accepts);
    let selected: unknown;
    const client = new x402Client((_, offers) => {
      selected = offers[0];
      return offers[0] as (typeof offers)[number];
    });
    if (wallet.kind === "evm") registerExactEvmScheme(client, { signer: privateKeyToAccount(KEY) });
    else {
      registerExactSvmScheme(client, { signer: solanaSigner });
      for (const network of ["solana", "solana-devnet"]) {
        client.registerV1(network, new ExactSvmSchemeV1(solanaSigner, { rpcUrl: NOWHERE }));
      }
    }
    return settle(
      () => selected,
      async () => {
        await wrapFetchV2(request, client)("http://shop.example/");
        return paid[0];
      },
    );
  },
};

/** Where the client and the rules differ; undefined: nowhere. */
async function difference(
  name: string,
  accepts: readonly unknown[],
  wallet: BuyerWallet,
): Promise<string | undefined> {
  const rules = CLIENTS.find((each) => each.name === name);
  const wire: unknown[] = JSON.parse(JSON.stringify(accepts));
  const verdict: Verdict | undefined = rules?.judge(wire, wallet);
  const outcome = await RUNS[name]?.(wire, wallet);
  if (verdict === undefined || outcome === undefined) return `no such client: ${name}`;
  const said = JSON.stringify({ verdict, outcome, wallet });
  if ("error" in outcome) return verdict.kind === "refuses" ? undefined : said;
  if (verdict.kind === "refuses") return said;
  // The version 1 schema makes copies, without what it does not know.
  const chosen = wire[verdict.index];
  const parsed = PaymentRequirementsSchema.safeParse(chosen);
  const same = [chosen, parsed.data].map((each) => JSON.stringify(each));
  return same.includes(JSON.stringify(outcome.chosen)) ? undefined : said;
}

const EVM = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const SOLANA = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";

/** An offer as the gateway writes it. */
const good = fc
  .record({
    network: fc.constantFrom(...NETWORK_NAMES),
    amount: fc.oneof(
      fc.constantFrom(1n, 100_000n, 100_001n, 999_999n, 1_000_000n, 1_000_001n),
      fc.bigInt(1n, 2n ** 64n - 1n),
    ),
    isUsual: fc.boolean(),
    description: fc.string(),
    schema: fc.boolean(),
  })
  .map(({ network, amount, isUsual, description, schema }) => {
    const facts = networkOf(network);
    const other = facts.kind === "evm" ? EVM : SOLANA;
    return {
      scheme: "exact",
      network,
      maxAmountRequired: String(amount),
      asset: isUsual ? facts.asset.address : other,
      payTo: facts.kind === "evm" ? EVM : SOLANA,
      resource: "https://shop.example/weather?city=Oslo",
      description,
      mimeType: "",
      maxTimeoutSeconds: 60,
      ...(schema ? { outputSchema: { input: { type: "http", method: "GET" } } } : {}),
      extra: facts.kind === "evm" ? { name: "USDC", version: "2" } : { feePayer: SOLANA },
    };
  });

/** What another gateway might write, field by field. */
const oddities: readonly (readonly [string, readonly unknown[]])[] = [
  ["scheme", ["upto", null, undefined]],
  ["network", ["eip155:8453", "ethereum", "story", "", undefined, null]],
  ["resource", ["/weather", "", "shop.example", "urn:x", undefined, 5]],
  ["description", [undefined, null, 5]],
  ["mimeType", [undefined, null]],
  ["outputSchema", [null, [], "x", undefined, {}]],
  ["extra", [null, [], undefined, {}, { name: "USDC" }, { name: "", version: "2" }]],
  ["maxTimeoutSeconds", [1.5, "60", 0, -1, null, undefined]],
  ["payTo", ["0x12", "", SOLANA, EVM, EVM.toLowerCase(), EVM.toUpperCase(), null]],
  ["asset", ["USDC", "x", "", SOLANA, EVM, `${EVM}00`, "-", null]],
];
/** Amounts that only version 1 clients are asked about; on Solana they read them after what needs a node. */
const oddAmounts: readonly unknown[] = ["", " 5 ", "1e3", "0x10", "1.5", "-1", "x", 10, null];

const evmOffer = good.filter(({ extra }) => "name" in extra);
/** Addresses on Solana are read after what needs a node. */
const odd = fc
  .constantFrom(...oddities)
  .chain((oddity) => {
    const offers = ["asset", "payTo"].includes(oddity[0]) ? evmOffer : good;
    return fc.tuple(offers, fc.constant(oddity), fc.nat());
  })
  .map(([offer, [field, values], at]) => ({ ...offer, [field]: values[at % values.length] }));
const oddAmount = fc
  .tuple(evmOffer, fc.constantFrom(...oddAmounts))
  .map(([offer, maxAmountRequired]) => ({ ...offer, maxAmountRequired }));

const wallets = fc.constantFrom<BuyerWallet>(
  { kind: "evm", chain: null },
  { kind: "evm", chain: "base" },
  { kind: "evm", chain: "polygon" },
  { kind: "evm", chain: "base-sepolia" },
  { kind: "solana" },
);

describe.each(CLIENTS.map(({ name }) => name))("%s", (name) => {
  const isV1 = name !== "@x402/fetch 2.27.0";

  test("decides about what a gateway offers as its rules say", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(good, { minLength: 1, maxLength: 4 }),
        wallets,
        async (offers, wallet) => {
          expect(await difference(name, offers, wallet)).toBeUndefined();
        },
      ),
      { numRuns: 300 },
    );
  }, 120_000);

  test("decides about odd offers as its rules say", async () => {
    const any = isV1 ? fc.oneof(good, odd, oddAmount) : fc.oneof(good, odd);
    await fc.assert(
      fc.asyncProperty(fc.array(any, { maxLength: 3 }), wallets, async (offers, wallet) => {
        expect(await difference(name, offers, wallet)).toBeUndefined();
      }),
      { numRuns: 600 },
    );
  }, 120_000);

  test("knows the stablecoin of each network, or does not", async () => {
    for (const network of NETWORK_NAMES) {
      const facts = networkOf(network);
      const [offer] = fc.sample(good, { numRuns: 1, seed: 1 });
      const isEvm = facts.kind === "evm";
      const parties = { network, asset: facts.asset.address, payTo: isEvm ? EVM : SOLANA };
      const extra = isEvm ? { name: "USDC", version: "2" } : { feePayer: SOLANA };
      const dollar = { ...offer, ...parties, extra, maxAmountRequired: "10000" };
      const wallet: BuyerWallet = isEvm ? { kind: "evm", chain: null } : { kind: "solana" };
      expect(await difference(name, [dollar], wallet), network).toBeUndefined();
    }
  });
});

test("the tokens of version 2 clients are theirs, and no other", () => {
  const evm = new ExactEvmSchemeV1(privateKeyToAccount(KEY));
  const judge = CLIENTS.at(-1)?.judge;
  for (const network of NETWORK_NAMES) {
    const facts = networkOf(network);
    const known =
      facts.kind === "evm"
        ? evm.findDefaultAsset?.(facts.asset.address, network as "x:y")
        : new ExactSvmSchemeV1(solanaSigner).findDefaultAsset?.(
            facts.asset.address,
            network as "x:y",
          );
    const isEvm = facts.kind === "evm";
    const wallet: BuyerWallet = isEvm ? { kind: "evm", chain: null } : { kind: "solana" };
    const extra = { name: "USDC", version: "2", feePayer: SOLANA };
    const payTo = isEvm ? EVM : SOLANA;
    const offer = { scheme: "exact", network, maxAmountRequired: "1", maxTimeoutSeconds: 60 };
    const asset = facts.asset.address;
    const verdict = judge?.([{ ...offer, asset, payTo, extra }], wallet);
    expect(verdict?.kind, network).toBe(known === undefined ? "refuses" : "pays");
    if (known !== undefined) expect(known.decimals).toBe(6);
  }
});

test("wallets are those of the networks on sale", () => {
  const names: NetworkName[] = ["base", "base", "solana"];
  expect(walletsFor(names)).toEqual([
    { kind: "evm", chain: null },
    { kind: "evm", chain: "base" },
    { kind: "solana" },
  ]);
  expect(walletsFor(["solana-devnet"])).toEqual([{ kind: "solana" }]);
});
