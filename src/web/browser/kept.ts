/**
 * A signed payment is kept by the browser before it is sent, so that a reload, or another tab, sends the same one
 * again: it is charged at most once, however often it is presented. What it has bought leaves a receipt.
 */
import type { PayableOffer } from "./offer.ts";

export interface KeptInBrowser {
  /** Of its header; what was kept before there was more than one has none: X-PAYMENT. */
  readonly name?: string;
  /** The value of that; "": nothing can be had for it any more, and what is left is the receipt. */
  readonly header: string;
  /** How it was paid; what was kept by earlier pages has its place in their list. */
  readonly offer: PayableOffer | number;
  /** When it had bought something, milliseconds since the epoch; 0: it has not yet. */
  readonly soldMs: number;
  /** When it was last kept, likewise. */
  readonly keptMs?: number;
  /** There once the shop has told of a transaction. */
  readonly receipt?: KeptReceipt;
  /** The query that it was signed for, where it is kept for another one now: it is kept there, too. */
  readonly from?: string | undefined;
}

export interface KeptReceipt {
  readonly seller: string;
  readonly item: string;
  readonly url: string;
  /** "" where it was paid from a balance. */
  readonly transaction: string;
  /** What that was charged, as the shop told it: `0.01 USDC`. */
  readonly charged?: string | undefined;
  /** "" where the shop did not tell. */
  readonly payer: string;
}

/** So long anything is kept, and so much of it for one shop: what is open is the last to be dropped. */
const MAX_KEPT_MS = 30 * 86_400_000;
const MAX_KEPT = 100;
const PREFIX = "coinslot ";
const nameFor = (query: string): string => PREFIX + location.pathname + query;

/** Where the browser stores nothing for pages, or nothing more, the entry in its history holds it over a reload. */
export function keep(kept: KeptInBrowser, query = location.search): void {
  let rest: KeptInBrowser | null = kept;
  try {
    localStorage.setItem(nameFor(query), JSON.stringify({ ...kept, keptMs: Date.now() }));
    rest = null;
    tidy();
  } catch {}
  history.replaceState(rest, "");
}

/** For another query of the page, of which nobody knows yet whether it takes the payment. */
export function move(kept: KeptInBrowser, query: string): void {
  const { from = location.search } = kept;
  if (kept.from !== undefined) drop(location.search);
  keep({ ...kept, from: from === query ? undefined : from }, query);
}

/** Leaves nothing of what is kept for that query. */
export function drop(query: string): void {
  try {
    localStorage.removeItem(nameFor(query));
  } catch {}
}

/** It is sent no more; its receipt stays, where money has moved. */
export function forget(kept: KeptInBrowser): void {
  if (kept.receipt) {
    keep({ ...kept, header: "", soldMs: kept.soldMs || Date.now() });
    return;
  }
  drop(location.search);
  history.replaceState(null, "");
}

/**
 * What of this browser's payments for the page's URL is unsettled, has bought something, or did so once.
 * @param again so long the shop gives what was bought again, seconds
 */
export function recall(again: number): KeptInBrowser | null {
  let kept: KeptInBrowser | null = history.state;
  const name = nameFor(location.search);
  try {
    // A tab that was opened before pages kept anything for others has it for itself.
    const own = sessionStorage.getItem(name);
    if (own) localStorage.setItem(name, own);
    sessionStorage.removeItem(name);
  } catch {}
  // A site may have left something of its own in the history.
  if (typeof kept?.header !== "string") kept = read(name);
  const isOver = kept && kept.soldMs && Date.now() - kept.soldMs > again * 1000;
  return isOver ? { ...(kept as KeptInBrowser), header: "" } : kept;
}

function read(name: string): KeptInBrowser | null {
  try {
    // Null is JSON, too.
    const kept: KeptInBrowser | null = JSON.parse(localStorage.getItem(name) as string);
    return typeof kept?.header === "string" ? kept : null;
  } catch {
    return null;
  }
}

/** The oldest, and what has been sold before what has not. */
function tidy(): void {
  const now = Date.now();
  const all = Object.keys(localStorage)
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => {
      const { soldMs = 1, keptMs = now } = read(name) ?? {};
      const age = now - keptMs;
      return { name, age, isOpen: soldMs === 0 && age <= MAX_KEPT_MS };
    })
    .toSorted((one, other) => Number(other.isOpen) - Number(one.isOpen) || one.age - other.age);
  for (const [index, { name, age }] of all.entries()) {
    if (index >= MAX_KEPT || age > MAX_KEPT_MS) localStorage.removeItem(name);
  }
}
