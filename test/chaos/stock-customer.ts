/**
 * A customer with a stock client, `x402-fetch` or `@x402/fetch` as its version is, in the loop that most people write around it: whatever went
 * wrong, ask again. The client knows nothing of payments that it has made, so that each try is paid anew.
 */
import { setTimeout as pause } from "node:timers/promises";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { Agent, fetch as fetchFrom } from "undici";
import { wrapFetchWithPayment as wrapFetchOfVersion1 } from "x402-fetch";
import { decodeEnvelope, PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { isEvmPayload } from "../../src/x402/payment-key.ts";
import { X402_VERSION } from "../../src/x402/x402.ts";
import type { FreshAccount } from "../support/payer.ts";
import {
  count,
  note,
  patienceOf,
  tellOf,
  RETRY_MS,
  type Market,
  type Purchase,
} from "./customer.ts";
import { goodsOf } from "./shop.ts";

/** Where such customers are, in turn, and as they move from one network to another. */
const PLACES: readonly [string, ...string[]] = ["127.0.0.1", "127.0.0.3", "127.0.0.4"];
/** How likely the next try comes from another place. */
const ROAMING = 0.3;

/** Buys until the goods are there, or the signal ends it. */
export async function buyAnew(
  purchase: Purchase,
  payer: FreshAccount,
  market: Market,
  signal: AbortSignal,
): Promise<void> {
  const { chance, gateway } = market;
  // Dealt, so that a short run has customers in all of them too.
  let place = PLACES[Number(purchase.item) % PLACES.length] ?? PLACES[0];
  while (!purchase.delivered && !signal.aborted) {
    const given = AbortSignal.any([signal, AbortSignal.timeout(patienceOf(market))]);
    const url = gateway();
    const sentMs = Date.now();
    const ended = (status: number): void => {
      count(purchase, status);
      const payment = purchase.payments.at(-1);
      note(purchase, { sentMs, gateway: `${url} from ${place}`, payment, status });
    };
    const pay = payingFetch(purchase, place, payer);
    try {
      const answer = await pay(`${url}/items/${purchase.item}`, { signal: given });
      const text = await answer.text();
      ended(answer.status);
      purchase.delivered ||= answer.status === 200 && text === goodsOf(purchase.item);
      if (answer.status === 402) tellOf(purchase, purchase.payments.at(-1), text);
    } catch {
      ended(given.aborted ? -1 : 0);
    }
    if (!purchase.delivered) await pause(chance.between(50, RETRY_MS));
    if (chance.chance(ROAMING)) place = chance.pick(PLACES);
  }
}

function payingFetch(
  purchase: Purchase,
  place: string,
  { account }: FreshAccount,
): (url: string, init: RequestInit) => Promise<Response> {
  const watched = watching(purchase, place);
  if (purchase.version === X402_VERSION) return wrapFetchOfVersion1(watched, account);
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(account));
  return wrapFetchWithPayment(watched, client);
}

/** The client's way to the network, from that place; what it signs is written down before it leaves. */
function watching({ payments, version }: Purchase, place: string): typeof fetch {
  return async (input, init) => {
    const { headers } = new Request(input, init);
    const header = headers.get(PAYMENT_HEADERS[version]) ?? undefined;
    const decoded = header === undefined ? undefined : decodeEnvelope(header, version);
    if (header !== undefined && decoded?.ok && isEvmPayload(decoded.value.payment.payload)) {
      const { from, nonce } = decoded.value.payment.payload.authorization;
      payments.push({ from, nonce, header });
    }
    const dispatcher = new Agent({ localAddress: place });
    try {
      const signal = init?.signal ?? (input instanceof Request ? input.signal : null);
      const url = input instanceof Request ? input.url : input;
      const answer = await fetchFrom(url, { headers: [...headers], signal, dispatcher });
      const { status } = answer;
      return new Response(await answer.arrayBuffer(), { status, headers: [...answer.headers] });
    } finally {
      void dispatcher.destroy();
    }
  };
}
