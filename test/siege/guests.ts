/** Those whom a siege must not touch: buyers, and visitors of what is free, each from an address of their own. */
import { setTimeout as pause } from "node:timers/promises";
import { Agent, fetch } from "undici";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import type { PaymentRequirements, X402Version } from "../../src/x402/x402.ts";
import { inHeader } from "../support/buyer.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";
import { PATHS } from "./attacks.ts";

/** Pause after a purchase, and after a visit, milliseconds. */
const BUY_MS = 2_000;
const VISIT_MS = 1_000;
/** No answer at all after this is a refusal, milliseconds. */
const PATIENCE_MS = 20_000;

/** What guests were told, and how long they waited for what they wanted. */
export class Told {
  readonly served: Served[] = [];
  /** What was said in place of the goods, by what it was. */
  readonly refusals = new Map<string, number>();

  /** How many were served in that version. */
  in(version: X402Version): number {
    return this.served.filter((each) => each.version === version).length;
  }

  /** Milliseconds within which that share of them was served; NaN where nobody was. */
  within(share: number): number {
    const sorted = this.slowest(Infinity).toReversed();
    return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)]?.ms ?? NaN;
  }

  /** Those who waited longest, the longest first. */
  slowest(count: number): readonly Served[] {
    return this.served.toSorted((one, other) => other.ms - one.ms).slice(0, count);
  }

  get refused(): number {
    return [...this.refusals.values()].reduce((sum, count) => sum + count, 0);
  }

  refuse(what: string): void {
    this.refusals.set(what, (this.refusals.get(what) ?? 0) + 1);
  }
}

interface Served {
  /** How long it waited. */
  readonly ms: number;
  /** Its parts and when it began, for people. */
  readonly detail: string;
  /** In which it was paid for. */
  readonly version?: X402Version;
}

export interface Guest {
  readonly url: string;
  readonly address: string;
  readonly told: Told;
}

/** Who pays, and in which version. */
export interface Buyer extends Pick<FreshAccount, "account"> {
  readonly version: X402Version;
}

/** Buys until the signal, each time on a new connection. */
export async function keepBuying(guest: Guest, buyer: Buyer, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await buyOnce(guest, buyer);
    await rest(BUY_MS, signal);
  }
}

/** Asks what it costs, signs, and buys it. Only the time of the gateway counts, not that of signing. */
export function buyOnce(guest: Guest, { account, version }: Buyer): Promise<void> {
  return served(guest, async (ask) => {
    const begun = performance.now();
    const asked = await ask(PATHS.sold, {});
    const askedMs = performance.now() - begun;
    if (asked.status !== 402) return refusedBy(asked);
    const { accepts } = JSON.parse(asked.text) as { accepts: [PaymentRequirements] };
    const [paymentRequirements] = accepts;
    const paymentPayload = await signPayment({ account, requirements: paymentRequirements });
    const header = inHeader({ paymentPayload, paymentRequirements }, version);
    const paid = performance.now();
    const bought = await ask(PATHS.sold, { [PAYMENT_HEADERS[version]]: header });
    if (bought.status !== 200) return refusedBy(bought);
    const paidMs = performance.now() - paid;
    const parts = `asked ${Math.round(askedMs)} ms, paid ${Math.round(paidMs)} ms`;
    const detail = `${parts}, at ${(begun / 1_000).toFixed(1)} s`;
    return { ms: askedMs + paidMs, detail, version };
  });
}

/** Asks for what is free until the signal, each time on a new connection. */
export async function keepVisiting(guest: Guest, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await visitOnce(guest);
    await rest(VISIT_MS, signal);
  }
}

export function visitOnce(guest: Guest): Promise<void> {
  return served(guest, async (ask) => {
    const begun = performance.now();
    const answer = await ask(PATHS.goods, {});
    const ms = performance.now() - begun;
    return answer.status === 200 ? { ms, detail: "" } : refusedBy(answer);
  });
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

type Ask = (path: string, headers: Readonly<Record<string, string>>) => Promise<Answer>;

/** Or what was said instead. */
type Outcome = Served | string;

async function served({ url, address, told }: Guest, visit: (ask: Ask) => Promise<Outcome>) {
  const connect = { rejectUnauthorized: false };
  const dispatcher = new Agent({ localAddress: address, connect, allowH2: true });
  const ask: Ask = async (path, headers) => {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(`${url}${path}`, { headers, signal, dispatcher });
    return { status: answer.status, text: await answer.text() };
  };
  try {
    const outcome = await visit(ask);
    if (typeof outcome === "string") told.refuse(outcome);
    else told.served.push(outcome);
  } catch (cause) {
    const { cause: inner = cause } = Object(cause);
    told.refuse(String(Object(inner).code ?? inner));
  } finally {
    void dispatcher.destroy();
  }
}

function refusedBy({ status, text }: Answer): string {
  return `${status} ${text.slice(0, 120)}`;
}

async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
}
