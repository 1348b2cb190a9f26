/** Where the cases of version 2 are played: gateways before one chain, and facilitators; opened once. */
import type { RequestListener } from "node:http";
import { text as readText } from "node:stream/consumers";
import { NETWORK_NAMES, networkOf } from "../../../src/x402/network.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startFacilitator, type RunningFacilitator } from "../../support/facilitator.ts";
import { accepting } from "../../support/accepting.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { startHub } from "../../support/hub.ts";
import { freshAccount } from "../../support/payer.ts";
import { freshSolanaKey } from "../../support/solana-key.ts";
import { startScriptedFacilitator } from "../../support/scripted-facilitator.ts";
import type { GatewayCase } from "./case.ts";

/** What all but the last of the gateways sell. */
export const ROUTES = `
  GET /weather: { price: $0.01, description: Current weather, mimeType: application/json, metadata: { category: weather, tags: [Oslo, oslo, "é"] }, input: { queryParams: { city: { type: string, required: true } } } }
  POST /summarize: { price: $0.02, description: A summary, input: { bodyType: json, bodyFields: { text: { type: string } } } }
  GET /reports/:id: { price: $0.25, description: A report, maxTimeoutSeconds: 90 }
  GET /bare: $0.01
  GET /accents: { price: $0.01, description: "Météo ☀ 天気" }
  GET /cheap: { price: $0.000001 }
  GET /dear: { price: $1234567.89 }
  GET /named: { price: $0.01, paymentIdentifier: required }
  GET /perhaps: { price: $0.01, paymentIdentifier: optional }
  GET /hidden: { price: $0.01, description: Not listed, discoverable: false }
  GET /health: free
  /admin/*: deny
`;
const DOCUMENTS = "discovery: { wellKnown: true, openapi: true, llms: true }";
const BRAND = "paywall: { brand: Example Weather }";

/** Who pays network fees on Solana, and who is paid there. */
const SOLANA = { feePayer: freshSolanaKey().address, payee: freshSolanaKey().address };

export interface Stage extends AsyncDisposable {
  readonly chain: Chain;
  readonly gateways: Readonly<Record<GatewayCase["at"], RunningGateway>>;
  /** A facilitator for everybody. */
  readonly open: RunningFacilitator;
  /** One that lists what known gateways sell. */
  readonly hub: RunningGateway;
  readonly feePayer: string;
}

/**
 * `both` speaks both versions, `newer` and `older` one of them; `everywhere` sells on all networks. Of twelve chains
 * there is no more to see here than what is asked for, so that its facilitator answers `/supported` alone.
 */
export async function openStage(): Promise<Stage> {
  await using closing = new AsyncDisposableStack();
  const chain = closing.use(await startChain());
  // What one of them asks for the others take.
  const payee = freshAccount().address;
  const open = async (more: string): Promise<RunningGateway> => {
    const header = "limits: { header: 128KiB }";
    const setup = {
      chain,
      payee,
      backend: forge,
      routes: ROUTES,
      more: [more, DOCUMENTS, BRAND, header].join("\n"),
    };
    return closing.use(await startGateway(setup));
  };
  const gateways = {
    both: await open("cors: true"),
    newer: await open("protocol: { v1: false }"),
    older: await open("cors: true\nprotocol: { v2: false }"),
    everywhere: closing.use(await startEverywhere(chain, closing)),
  };
  const facilitator = closing.use(await startFacilitator({ chain }));
  const hub = closing.use(await startHub({ chain }));
  const owned = closing.move();
  return {
    chain,
    gateways,
    open: facilitator,
    hub,
    feePayer: SOLANA.feePayer,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Repeats the request, with headers of the protocol that a backend has no business with. */
const forge: RequestListener = async (request, response) => {
  const body = await readText(request);
  const forged = Buffer.from('{"success":true,"transaction":"0xforged"}').toString("base64");
  const names = [
    "PAYMENT-REQUIRED",
    "PAYMENT-RESPONSE",
    "X-PAYMENT-RESPONSE",
    "EXTENSION-RESPONSES",
  ];
  for (const name of request.url === "/health" ? [] : names) response.setHeader(name, forged);
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ method: request.method, url: request.url, body }));
};

async function startEverywhere(
  chain: Chain,
  closing: AsyncDisposableStack,
): Promise<RunningGateway> {
  const kinds = NETWORK_NAMES.map((name) => {
    const { kind, caip2 } = networkOf(name);
    const extra = kind === "solana" ? { extra: { feePayer: SOLANA.feePayer } } : {};
    return { x402Version: 2, scheme: "exact", network: caip2, ...extra };
  });
  const body = { kinds, extensions: [], signers: {} };
  const elsewhere = closing.use(
    await startScriptedFacilitator(({ url }) =>
      url === "/supported" ? { status: 200, body } : { status: 404 },
    ),
  );
  // A network for each route shows one by itself, and `/all` what they are like together, Solana first in the file.
  const one = NETWORK_NAMES.map((name) => {
    const payTo = networkOf(name).kind === "solana" ? `, payTo: { solana: ${SOLANA.payee} }` : "";
    return `  GET /on/${name}: { price: $0.01, accept: [${name}]${payTo} }`;
  });
  const all = `  GET /all: { price: $0.01, accept: [${accepting(NETWORK_NAMES.toReversed())}], payTo: { evm: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", solana: ${SOLANA.payee} } }`;
  return startGateway({
    chain,
    routes: `\n${[...one, all].join("\n")}\n`,
    facilitator: elsewhere.url,
  });
}
