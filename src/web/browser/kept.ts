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

/** Where the browser stores nothing for pages, the entry in its history has to do: a reload finds it there. */
export function keep(kept: Kept | null): void {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(kept));
  } catch {
    history.replaceState(kept, "");
  }
}

/** What of this tab's payments is unsettled, or has bought an answer that may be had again. */
export function recall(): Kept | null {
  let kept: Kept | null;
  try {
    kept = JSON.parse(sessionStorage.getItem(NAME) ?? "null");
  } catch {
    kept = history.state;
  }
  // A site may have left something of its own in the history.
  if (!kept?.header) return null;
  return kept.soldMs && Date.now() - kept.soldMs > ANSWER_MS ? null : kept;
}
