/**
 * A customer with a stock client, `x402-fetch`, in the loop that most people write around it: whatever went
 * wrong, ask again. The client knows nothing of payments that it has made, so that each try is paid anew.
 */
import { setTimeout as pause } from "node:timers/promises";
import { Agent, fetch as fetchFrom } from "undici";
import { wrapFetchWithPayment } from "x402-fetch";
import { decodePaymentHeader } from "../../src/x402/header.ts";
import { isEvmPayload } from "../../src/x402/payment-key.ts";
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
export const PLACES: readonly [string, ...string[]] = ["127.0.0.1", "127.0.0.3", "127.0.0.4"];
/** How likely the next try comes from another place. */
const ROAMING = 0.3;

/** Buys until the goods are there, or the signal ends it. */
export async function buyAnew(
  purchase: Purchase,
  { account }: FreshAccount,
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
    const pay = wrapFetchWithPayment(watching(purchase, place), account);
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

/** The client's way to the network, from that place; what it signs is written down before it leaves. */
function watching({ payments }: Purchase, place: string): typeof fetch {
  return async (input, init) => {
    const headers = new Headers(init?.headers);
    const header = headers.get("X-PAYMENT") ?? undefined;
    const decoded = header === undefined ? undefined : decodePaymentHeader(header);
    if (header !== undefined && decoded?.ok && isEvmPayload(decoded.value.payload)) {
      const { from, nonce } = decoded.value.payload.authorization;
      payments.push({ from, nonce, header });
    }
    const dispatcher = new Agent({ localAddress: place });
    try {
      const signal = init?.signal ?? null;
      const url = input instanceof Request ? input.url : input;
      const answer = await fetchFrom(url, { headers: [...headers], signal, dispatcher });
      const { status } = answer;
      return new Response(await answer.arrayBuffer(), { status, headers: [...answer.headers] });
    } finally {
      void dispatcher.destroy();
    }
  };
}
