/**
 * A signed payment is kept by the tab before it is sent, so that a reload sends the same one again: it is
 * charged at most once, however often it is presented.
 */

export interface Kept {
  /** The value of X-PAYMENT. */
  readonly header: string;
  /** Its place in the list of offers. */
  readonly offer: number;
  /** When it had bought something, milliseconds since the epoch; 0: it has not yet. */
  readonly soldMs: number;
}

/** So long a shop gives the same answer again, milliseconds. */
const ANSWER_MS = 600_000;
const NAME = `coinslot ${location.pathname}${location.search}`;

/** Where the browser keeps nothing for pages, a reload forgets; what is signed is still charged only once. */
export function keep(kept: Kept | null): void {
  try {
    if (kept) sessionStorage.setItem(NAME, JSON.stringify(kept));
    else sessionStorage.removeItem(NAME);
  } catch {}
}

/** What of this tab's payments is unsettled, or has bought an answer that may be had again. */
export function recall(): Kept | null {
  try {
    const kept: Kept | null = JSON.parse(sessionStorage.getItem(NAME) ?? "null");
    return kept && kept.soldMs && Date.now() - kept.soldMs > ANSWER_MS ? null : kept;
  } catch {
    return null;
  }
}
