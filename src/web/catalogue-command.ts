/**
 * What a buyer can copy: a request that shows the price, and a few lines for the client library that pays. Whatever
 * the configuration says is quoted, so that a shell or a program reads it as one word. No program of ours is named:
 * whoever takes a name that is free in a registry would be handed the keys of those who follow the page.
 */
import { X402_VERSION, type X402Version } from "../x402/x402.ts";
import type { CataloguePrice, CatalogueRoute } from "./catalogue-view.ts";

/** Methods whose requests have a body. */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);
/** By what the configuration calls them; a body of several parts cannot be written in a line. */
const BODY_TYPES: ReadonlyMap<string, string> = new Map([
  ["json", "application/json"],
  ["form-data", "application/x-www-form-urlencoded"],
  ["text", "text/plain"],
  ["binary", "application/octet-stream"],
]);

/** What can be asked for as it is. */
export type AskableRoute = CatalogueRoute & { readonly url: string };

/** `curl -i 'https://…'` */
export function priceCommand(route: AskableRoute): string {
  const method = methodOf(route);
  const words = ["curl -i"];
  if (method !== "GET") words.push(`-X ${method}`);
  if (WITH_BODY.has(method)) words.push(`-d ${shellWord(bodyOf(route))}`);
  for (const [name, value] of headersOf(route)) words.push(`-H ${shellWord(`${name}: ${value}`)}`);
  return [...words, shellWord(route.url)].join(" ");
}

/** For Node, with the library of the protocol's authors. */
export function clientCode(route: AskableRoute, version: X402Version): string {
  const method = methodOf(route);
  const headers = headersOf(route).map((each) => each.map(scriptText).join(": "));
  const members = [
    ...(method === "GET" ? [] : [`method: ${scriptText(method)}`]),
    ...(headers.length === 0 ? [] : [`headers: { ${headers.join(", ")} }`]),
    ...(WITH_BODY.has(method) ? [`body: ${scriptText(bodyOf(route))}`] : []),
  ];
  const options = members.length === 0 ? "" : `, { ${members.join(", ")} }`;
  const isEvm = route.prices.some(({ family }) => family === "evm");
  const written = (version === X402_VERSION ? payV1 : payV2)(isEvm, mostOf(route));
  return `${written}
const response = await pay(${scriptText(route.url)}${options});
console.log(await response.text());`;
}

function payV1(isEvm: boolean, most: bigint): string {
  return `${isEvm ? EVM_V1 : SOLANA_V1}
const pay = wrapFetchWithPayment(fetch, account, ${most}n); // the most that is paid`;
}

function payV2(isEvm: boolean, most: bigint): string {
  return `${isEvm ? EVM_V2 : SOLANA_V2}
// The most that is paid.
client.registerPolicy((_, ways) => ways.filter(({ amount }) => BigInt(amount) <= ${most}n));
const pay = wrapFetchWithPayment(fetch, client);`;
}

const EVM_V1 = `import { privateKeyToAccount } from "viem/accounts";
import { wrapFetchWithPayment } from "x402-fetch";

const account = privateKeyToAccount(process.env.KEY);`;
const SOLANA_V1 = `import { createSigner, wrapFetchWithPayment } from "x402-fetch";

const account = await createSigner("solana", process.env.KEY);`;
const EVM_V2 = `import { privateKeyToAccount } from "viem/accounts";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";

const scheme = new ExactEvmScheme(privateKeyToAccount(process.env.KEY));
const client = new x402Client().register("eip155:*", scheme);`;
const SOLANA_V2 = `import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";

const key = getBase58Encoder().encode(process.env.KEY);
const scheme = new ExactSvmScheme(await createKeyPairSignerFromBytes(key));
const client = new x402Client().register("solana:*", scheme);`;

function headersOf(route: CatalogueRoute): readonly (readonly [name: string, value: string])[] {
  const type = WITH_BODY.has(methodOf(route)) ? BODY_TYPES.get(route.bodyType ?? "") : undefined;
  const typed = type === undefined ? [] : [["Content-Type", type] as const];
  // What the body's type says already, and what the payment itself is.
  const taken = new Set([
    ...typed.map(([name]) => name.toLowerCase()),
    "x-payment",
    "payment-signature",
  ]);
  const named = required(route, "header").filter(({ name }) => !taken.has(name.toLowerCase()));
  return [...typed, ...named.map(({ name, example }) => [name, textOf(example)] as const)];
}

function methodOf({ methods }: CatalogueRoute): string {
  return methods?.[0] ?? "GET";
}

function required({ inputs }: CatalogueRoute, place: string) {
  return inputs.filter((each) => each.place === place && each.isRequired);
}

function bodyOf(route: CatalogueRoute): string {
  const fields = required(route, "body");
  if (route.bodyType === "form-data" && fields.length > 0) {
    const pairs = fields.map(({ name, example }): [string, string] => [name, textOf(example)]);
    return new URLSearchParams(pairs).toString();
  }
  if (route.bodyType !== null && route.bodyType !== "json") return "…";
  return JSON.stringify(
    Object.fromEntries(fields.map(({ name, example = "…" }) => [name, example])),
  );
}

/** What has to be filled in by hand can be seen. */
function textOf(example: unknown = "…"): string {
  return typeof example === "string" ? example : (JSON.stringify(example) ?? "…");
}

/** The highest price that the code may pay: in dollars of six decimals, or of the one token that it allows. */
function mostOf({ prices }: CatalogueRoute): bigint {
  const usual = prices.filter((price) => price.isUsual);
  const payable: readonly CataloguePrice[] = usual.length > 0 ? usual : prices.slice(0, 1);
  return payable.reduce((most, { amountAtomic }) => {
    const amount = BigInt(amountAtomic);
    return amount > most ? amount : most;
  }, 0n);
}

/** In single quotes nothing means anything to a shell but the quote itself. */
export function shellWord(text: string): string {
  return `'${text.replace(/\p{Cc}/gu, " ").replaceAll("'", `'\\''`)}'`;
}

function scriptText(text: string): string {
  return JSON.stringify(text).replace(/[\u2028\u2029]/g, "");
}
