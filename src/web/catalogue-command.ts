/**
 * What a buyer can copy: the paying command, and a few lines for the client library. Whatever the configuration
 * says is quoted, so that a shell or a program reads it as one word.
 */
import type { CatalogueRoute } from "./catalogue-view.ts";

/** What clients of version 1 pay without being told, atomic units: $0.10. */
const DEFAULT_MOST = 100_000n;
/** Methods whose requests have a body. */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

/** `coinslot pay 'https://…'` */
export function payCommand(route: CatalogueRoute): string {
  const method = methodOf(route);
  const words = ["coinslot pay"];
  if (method !== "GET") words.push(`-X ${method}`);
  if (WITH_BODY.has(method)) words.push(`-d ${shellWord(bodyOf(route))}`);
  for (const [name, value] of headersOf(route)) words.push(`-H ${shellWord(`${name}: ${value}`)}`);
  const most = mostOf(route);
  if (most > DEFAULT_MOST) words.push(`--max ${most}units`);
  return [...words, shellWord(urlOf(route))].join(" ");
}

/** For Node, with the library of the protocol's authors. */
export function clientCode(route: CatalogueRoute): string {
  const method = methodOf(route);
  const headers = headersOf(route).map((each) => each.map(scriptText).join(": "));
  const members = [
    ...(method === "GET" ? [] : [`method: ${scriptText(method)}`]),
    ...(headers.length === 0 ? [] : [`headers: { ${headers.join(", ")} }`]),
    ...(WITH_BODY.has(method) ? [`body: ${scriptText(bodyOf(route))}`] : []),
  ];
  const options = members.length === 0 ? "" : `, { ${members.join(", ")} }`;
  const isEvm = route.prices.some(({ family }) => family === "evm");
  return `${isEvm ? EVM_ACCOUNT : SOLANA_ACCOUNT}
const pay = wrapFetchWithPayment(fetch, account, ${mostOf(route)}n); // the most that is paid
const response = await pay(${scriptText(urlOf(route))}${options});
console.log(await response.text());`;
}

const EVM_ACCOUNT = `import { privateKeyToAccount } from "viem/accounts";
import { wrapFetchWithPayment } from "x402-fetch";

const account = privateKeyToAccount(process.env.KEY);`;
const SOLANA_ACCOUNT = `import { createSigner, wrapFetchWithPayment } from "x402-fetch";

const account = await createSigner("solana", process.env.KEY);`;

function headersOf(route: CatalogueRoute): readonly (readonly [name: string, value: string])[] {
  const isJson = WITH_BODY.has(methodOf(route)) && route.bodyType === "json";
  const named = required(route, "header").map(({ name }) => [name, "…"] as const);
  return isJson ? [["Content-Type", "application/json"], ...named] : named;
}

function methodOf({ methods }: CatalogueRoute): string {
  return methods?.[0] ?? "GET";
}

function required({ inputs }: CatalogueRoute, place: string) {
  return inputs.filter((each) => each.place === place && each.isRequired);
}

/** With every parameter of the query that has to be there. */
function urlOf(route: CatalogueRoute): string {
  const query = required(route, "query").map(({ name }) => `${encodeURIComponent(name)}=…`);
  return query.length === 0 ? route.url : `${route.url}?${query.join("&")}`;
}

function bodyOf(route: CatalogueRoute): string {
  const fields = required(route, "body").map(({ name }) => [name, "…"] as const);
  if (route.bodyType !== null && route.bodyType !== "json") return "…";
  return JSON.stringify(Object.fromEntries(fields));
}

/** The highest price, of tokens that all are dollars of six decimals or stand for themselves. */
function mostOf({ prices }: CatalogueRoute): bigint {
  return prices.reduce((most, { amountAtomic }) => {
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
