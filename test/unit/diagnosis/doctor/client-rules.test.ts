/**
 * The real clients, run to the end over a network that answers one 402: what they decide has to be what the
 * rules say. Nothing of them is replaced but `fetch`, so schema, choice, limits and signing are theirs.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createKeyPairSignerFromBytes } from "@solana/kit";
import { wrapAxiosWithPayment, x402Client as AxiosX402Client } from "@x402/axios";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1, NETWORKS as EVM_NETWORKS } from "@x402/evm/v1";
import { wrapFetchWithPayment as wrapFetchV2, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { ExactSvmSchemeV1, NETWORKS as SVM_NETWORKS } from "@x402/svm/v1";
import { AxiosError, create, type InternalAxiosRequestConfig } from "axios";
import * as fc from "fast-check";
import { privateKeyToAccount } from "viem/accounts";
import { beforeAll, describe, expect, test } from "vitest";
import { withPaymentInterceptor } from "x402-axios";
import * as axiosClient from "x402-axios";
import { createSigner, wrapFetchWithPayment } from "x402-fetch";
import { selectPaymentRequirements } from "x402/client";
import { PaymentRequirementsSchema } from "x402/types";
import { readHeaderJson } from "../../../../src/buyer/offer.ts";
import { parseConfig } from "../../../../src/config/config.ts";
import {
  CLIENTS,
  HALVES,
  walletsFor,
  type BuyerWallet,
  type SentQuote,
} from "../../../../src/diagnosis/doctor/client-rules.ts";
import { quoteHeader, routeQuotes } from "../../../../src/diagnosis/route-quotes.ts";
import { encodeHeaderJson, PAYMENT_REQUIRED_HEADER } from "../../../../src/x402/header.ts";
import { NETWORK_NAMES, networkOf, type NetworkName } from "../../../../src/x402/network.ts";
import { encodeBase58 } from "../../../../src/x402/solana-address.ts";
import { caip2Of } from "../../../../src/x402/version-2.ts";
import { environment } from "../../config/fixture.ts";
import { effort } from "../../../support/effort.ts";

const KEY = `0x${"5a".repeat(32)}` as const;
/** Nobody listens there: a client that gets so far has chosen, and is about to sign. */
const NOWHERE = "http://127.0.0.1:1";
const SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const SOLANA_SECRET = Buffer.from(SEED + PUBLIC, "hex");

/** Chosen: the offer that the client signed for, or would have with a node to ask. */
type Outcome = { readonly chosen: unknown } | { readonly error: string };
type Run = (quote: SentQuote, wallet: BuyerWallet) => Promise<Outcome>;

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

function headersOf({ header }: SentQuote): Record<string, string> {
  return header === null ? {} : { [PAYMENT_REQUIRED_HEADER.toLowerCase()]: header };
}

/** A `fetch` that answers 402 once, and notes what it is paid with. */
function shop(quote: SentQuote) {
  const paid: (string | null)[] = [];
  const request: typeof fetch = async (input, init) => {
    const { headers } = input instanceof Request ? input : new Request(input, init);
    const header = headers.get("X-PAYMENT") ?? headers.get("PAYMENT-SIGNATURE");
    if (header === null) {
      return Response.json(quote.body, { status: 402, headers: headersOf(quote) });
    }
    paid.push(header);
    return new Response("paid");
  };
  return { paid, request };
}

/** The same for axios. */
function axiosShop(quote: SentQuote) {
  const paid: unknown[] = [];
  const adapter = async (config: InternalAxiosRequestConfig) => {
    const header = config.headers.get("X-PAYMENT") ?? config.headers.get("PAYMENT-SIGNATURE");
    const isPaid = header !== undefined && header !== null;
    const status = isPaid ? 200 : 402;
    const data = isPaid ? "paid" : quote.body;
    const response = { status, statusText: "", headers: headersOf(quote), config, data };
    if (!isPaid) throw new AxiosError("402", "402", config, undefined, response);
    paid.push(header);
    return response;
  };
  return { paid, instance: create({ adapter }) };
}

let solanaSigner: Awaited<ReturnType<typeof createKeyPairSignerFromBytes>>;

beforeAll(async () => {
  solanaSigner = await createKeyPairSignerFromBytes(SOLANA_SECRET);
});

async function signerOf(wallet: BuyerWallet) {
  if (wallet.kind === "solana") return createSigner("solana-devnet", encodeBase58(SOLANA_SECRET));
  return wallet.chain === null ? privateKeyToAccount(KEY) : createSigner(wallet.chain, KEY);
}

/** What clients of version 2 are given schemes by: those of either package. */
interface Registry {
  register(network: `${string}:${string}`, scheme: ExactEvmScheme | ExactSvmScheme): unknown;
  registerV1(network: string, scheme: ExactEvmSchemeV1 | ExactSvmSchemeV1): unknown;
}

/** As `registerExactEvmScheme` and `registerExactSvmScheme` do for both versions, with a node that is not there. */
function register(client: Registry, { kind }: BuyerWallet, versions: readonly number[]): void {
  const account = privateKeyToAccount(KEY);
  const node = { rpcUrl: NOWHERE };
  if (versions.includes(2)) {
    if (kind === "evm") client.register("eip155:*", new ExactEvmScheme(account));
    else client.register("solana:*", new ExactSvmScheme(solanaSigner, node));
  }
  if (!versions.includes(1)) return;
  for (const network of kind === "evm" ? EVM_NETWORKS : SVM_NETWORKS) {
    const isEvm = kind === "evm";
    client.registerV1(
      network,
      isEvm ? new ExactEvmSchemeV1(account) : new ExactSvmSchemeV1(solanaSigner, node),
    );
  }
}

const runV2 =
  (versions: readonly number[]): Run =>
  async (quote, wallet) => {
    const { paid, request } = shop(quote);
    let selected: unknown;
    const client = new x402Client((_, offers) => {
      selected = offers[0];
      return offers[0] as (typeof offers)[number];
    });
    register(client, wallet, versions);
    return settle(
      () => selected,
      async () => {
        await wrapFetchV2(request, client)("http://shop.example/");
        return paid[0];
      },
    );
  };

const runAxiosV2: Run = async (quote, wallet) => {
  const { paid, instance } = axiosShop(quote);
  let selected: unknown;
  const client = new AxiosX402Client((_, offers) => {
    selected = offers[0];
    return offers[0] as (typeof offers)[number];
  });
  register(client, wallet, [1, 2]);
  return settle(
    () => selected,
    async () => {
      await wrapAxiosWithPayment(instance, client).get("http://shop.example/");
      return paid[0];
    },
  );
};

const RUNS: Readonly<Record<string, Run>> = {
  "x402-fetch 1.2.0": async (quote, wallet) => {
    const { paid, request } = shop(quote);
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
  "x402-axios 0.7.2": async (quote, wallet) => {
    let selected: ReturnType<typeof selectPaymentRequirements> | undefined;
    const { paid, instance } = axiosShop(quote);
    const select = (...given: Parameters<typeof selectPaymentRequirements>) =>
      (selected = selectPaymentRequirements(...given));
    const signer =
      wallet.kind === "solana"
        ? await axiosClient.createSigner("solana-devnet", encodeBase58(SOLANA_SECRET))
        : wallet.chain === null
          ? privateKeyToAccount(KEY)
          : await axiosClient.createSigner(wallet.chain, KEY);
    const config = { svmConfig: { rpcUrl: NOWHERE } };
    const client = withPaymentInterceptor(instance, signer, select, config);
    return settle(
      () => selected,
      async () => {
        await client.get("http://shop.example/");
        return paid[0];
      },
    );
  },
  "@x402/fetch 2.27.0": runV2([1, 2]),
  "@x402/axios 2.11.0": runAxiosV2,
  "@x402 with schemes of version 1 alone": runV2([1]),
  "@x402 with schemes of version 2 alone": runV2([2]),
};

const ALL = [...CLIENTS, ...HALVES];

/** What the clients say where the rules give that reason. */
const ERRORS = {
  "too-dear": /exceeds maximum allowed|rejected by spendControls.maxAmountPerPayment/,
  "unknown-token": /rejected by spendControls: only default assets/,
  "other-version": /No client registered for x402 version|reading 'map'/,
  "other-network": /No network\/scheme registered|Invalid (?:evm|svm) wallet/,
  unreadable: /./,
} as const;

/** Where the client and the rules differ; undefined: nowhere. */
async function difference(
  name: string,
  quote: SentQuote,
  wallet: BuyerWallet,
): Promise<string | undefined> {
  const verdict = ALL.find((each) => each.name === name)?.judge(quote, wallet);
  const outcome = await RUNS[name]?.(quote, wallet);
  if (verdict === undefined || outcome === undefined) return `no such client: ${name}`;
  const said = JSON.stringify({ verdict, outcome, wallet });
  if ("error" in outcome) {
    const isSame = verdict.kind === "refuses" && ERRORS[verdict.reason].test(outcome.error);
    return isSame ? undefined : said;
  }
  if (verdict.kind === "refuses") return said;
  // The version 1 schema makes copies, without what it does not know.
  const isV2 = name.startsWith("@x402") && quote.header !== null;
  const asked = isV2 ? readHeaderJson(quote.header ?? "") : quote.body;
  const chosen: unknown = Object(asked).accepts[verdict.index];
  const parsed = PaymentRequirementsSchema.safeParse(chosen);
  const same = [chosen, parsed.data].map((each) => JSON.stringify(each));
  return same.includes(JSON.stringify(outcome.chosen)) ? undefined : said;
}

type Entry = Readonly<Record<string, unknown>>;

/** What is asked in those versions. */
function quoteOf(
  accepts: readonly Entry[],
  { v1, v2 }: { readonly v1: boolean; readonly v2: boolean },
  paymentFlow: unknown = "upfront",
): SentQuote {
  const newer = accepts.map((entry) => {
    const { network, maxAmountRequired: amount, extra } = entry;
    return {
      scheme: entry["scheme"],
      network: typeof network === "string" ? caip2Of(network) : network,
      amount,
      asset: entry["asset"],
      payTo: entry["payTo"],
      maxTimeoutSeconds: entry["maxTimeoutSeconds"],
      extra: extra?.constructor === Object ? { ...extra, paymentFlow } : extra,
    };
  });
  const resource = { url: "https://shop.example/weather" };
  const body = v1 ? { x402Version: 1, error: "X-PAYMENT header is required", accepts } : {};
  return {
    body: JSON.parse(JSON.stringify(body)),
    header: v2 ? encodeHeaderJson({ x402Version: 2, error: "no", resource, accepts: newer }) : null,
  };
}

const versions = fc.constantFrom(
  { v1: true, v2: true },
  { v1: true, v2: false },
  { v1: false, v2: true },
);
const flow = fc.constantFrom("upfront", undefined, null, "authorization", "escrow", "later");

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

describe.each(ALL.map(({ name }) => name))("%s", (name) => {
  const isV1 = name.startsWith("x402-");

  test("decides about what a gateway offers as its rules say", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(good, { minLength: 1, maxLength: 4 }),
        versions,
        wallets,
        async (offers, spoken, wallet) => {
          expect(await difference(name, quoteOf(offers, spoken), wallet)).toBeUndefined();
        },
      ),
      { numRuns: effort(50, 150) },
    );
  }, 120_000);

  test("decides about odd offers as its rules say", async () => {
    const any = isV1 ? fc.oneof(good, odd, oddAmount) : fc.oneof(good, odd);
    await fc.assert(
      fc.asyncProperty(
        fc.array(any, { maxLength: 3 }),
        versions,
        flow,
        wallets,
        async (offers, spoken, paymentFlow, wallet) => {
          const quote = quoteOf(offers, spoken, paymentFlow);
          expect(await difference(name, quote, wallet)).toBeUndefined();
        },
      ),
      { numRuns: effort(150, 600) },
    );
  }, 120_000);

  test("decides about the quotes of a gateway as its rules say, on each network and in each version", async () => {
    for (const network of NETWORK_NAMES) {
      for (const protocol of ["{ v1: true, v2: true }", "{ v1: false }", "{ v2: false }"]) {
        for (const { quote, wallets: some } of quotesOn(network, protocol)) {
          for (const wallet of some) {
            expect(await difference(name, quote, wallet), network).toBeUndefined();
          }
        }
      }
    }
  }, 60_000);
});

/** What a gateway asks on one network, for a price that all pay, and for dearer ones. */
function quotesOn(network: NetworkName, protocol: string) {
  const text = `upstream: http://localhost:3000
publicUrl: https://shop.example
payTo: { evm: "${EVM}", solana: ${SOLANA} }
accept: [${network}]
facilitator: https://facilitator.example.com
unmatched: deny
protocol: ${protocol}
routes:
  GET /a: $0.10
  GET /b: $0.11
  GET /c/:id: $1
  POST /d: $1.01
`;
  const result = parseConfig(text, { file: "gateway.yaml", ...environment });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  const quotes = [...routeQuotes(result.config)];
  expect(quotes).toHaveLength(4);
  return quotes.map(({ answer }) => {
    const quote = { body: JSON.parse(answer.body), header: quoteHeader(answer) };
    return { quote, wallets: walletsFor([network]) };
  });
}

test("clients are named as they are installed", () => {
  for (const { name } of CLIENTS) {
    const [client = "", version] = name.split(" ");
    const path = join(import.meta.dirname, "../../../../node_modules", client, "package.json");
    expect(JSON.parse(readFileSync(path, "utf8")), name).toMatchObject({ version });
  }
});

test("the tokens of version 2 clients are theirs, and no other", () => {
  const evm = new ExactEvmScheme(privateKeyToAccount(KEY));
  const svm = new ExactSvmScheme(solanaSigner);
  const judge = CLIENTS.find(({ name }) => name === "@x402/fetch 2.27.0")?.judge;
  for (const network of NETWORK_NAMES) {
    const { kind, asset, caip2 } = networkOf(network);
    const isEvm = kind === "evm";
    const known = (isEvm ? evm : svm).findDefaultAsset(asset.address, caip2 as "x:y");
    const wallet: BuyerWallet = isEvm ? { kind: "evm", chain: null } : { kind: "solana" };
    const extra = { name: "USDC", version: "2", feePayer: SOLANA };
    const payTo = isEvm ? EVM : SOLANA;
    const offer = { scheme: "exact", network, maxAmountRequired: "1", maxTimeoutSeconds: 60 };
    const quote = quoteOf([{ ...offer, asset: asset.address, payTo, extra }], {
      v1: true,
      v2: true,
    });
    const verdict = judge?.(quote, wallet);
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
