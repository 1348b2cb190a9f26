/**
 * What a buyer can copy: the paying command, and a few lines for the client library. Whatever the configuration
 * says is quoted, so that a shell or a program reads it as one word.
 */
import type { CataloguePrice, CatalogueRoute } from "./catalogue-view.ts";

/** What clients of version 1 pay without being told, atomic units: $0.10. */
const DEFAULT_MOST = 100_000n;
/** Methods whose requests have a body. */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);
/** By what the configuration calls them; a body of several parts cannot be written in a line. */
const BODY_TYPES: ReadonlyMap<string, string> = new Map([
  ["json", "application/json"],
  ["form-data", "application/x-www-form-urlencoded"],
  ["text", "text/plain"],
  ["binary", "application/octet-stream"],
]);

/** `coinslot pay 'https://…'` */
export function payCommand(route: CatalogueRoute): string {
  const method = methodOf(route);
  const words = ["coinslot pay"];
  if (method !== "GET") words.push(`-X ${method}`);
  if (WITH_BODY.has(method)) words.push(`-d ${shellWord(bodyOf(route))}`);
  for (const [name, value] of headersOf(route)) words.push(`-H ${shellWord(`${name}: ${value}`)}`);
  const most = mostOf(route);
  const [foreign] = isUsual(route) ? [] : route.prices;
  if (foreign !== undefined) words.push(`--allow-asset ${shellWord(foreign.asset)}`);
  // What a token is worth that nobody knows, nobody knows either: the most has to be said.
  if (foreign !== undefined || most > DEFAULT_MOST) words.push(`--max ${most}units`);
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
  const type = WITH_BODY.has(methodOf(route)) ? BODY_TYPES.get(route.bodyType ?? "") : undefined;
  const typed = type === undefined ? [] : [["Content-Type", type] as const];
  // What the body's type says already, and what the payment itself is.
  const taken = new Set([...typed.map(([name]) => name.toLowerCase()), "x-payment"]);
  const named = required(route, "header").filter(({ name }) => !taken.has(name.toLowerCase()));
  return [...typed, ...named.map(({ name }) => [name, "…"] as const)];
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
  const names = required(route, "body").map(({ name }) => name);
  if (route.bodyType === "form-data" && names.length > 0) {
    return names.map((name) => `${encodeURIComponent(name)}=…`).join("&");
  }
  if (route.bodyType !== null && route.bodyType !== "json") return "…";
  return JSON.stringify(Object.fromEntries(names.map((name) => [name, "…"])));
}

function isUsual({ prices }: CatalogueRoute): boolean {
  return prices.some((price) => price.isUsual);
}

/** The highest price that the command may pay: in dollars of six decimals, or of the one token that it allows. */
function mostOf(route: CatalogueRoute): bigint {
  const payable: readonly CataloguePrice[] = isUsual(route)
    ? route.prices.filter((price) => price.isUsual)
    : route.prices.slice(0, 1);
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
