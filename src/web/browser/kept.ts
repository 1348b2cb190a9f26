/**
 * A signed payment is kept by the tab before it is sent, so that a reload sends the same one again: it is
 * charged at most once, however often it is presented.
 */

export interface KeptInBrowser {
  /** Of its header; what was kept before there was more than one has none: X-PAYMENT. */
  readonly name?: string;
  /** The value of that. */
  readonly header: string;
  /** Its place in the list of offers. */
  readonly offer: number;
  /** When it had bought something, milliseconds since the epoch; 0: it has not yet. */
  readonly soldMs: number;
}

/** So long a shop gives the same answer again, milliseconds. */
const ANSWER_MS = 600_000;
const NAME = `coinslot ${location.pathname}${location.search}`;

/** Where the browser stores nothing for pages, or nothing more, the entry in its history holds it over a reload. */
export function keep(kept: KeptInBrowser | null): void {
  let rest = kept;
  try {
    if (kept) sessionStorage.setItem(NAME, JSON.stringify(kept));
    else sessionStorage.removeItem(NAME);
    rest = null;
  } catch {}
  history.replaceState(rest, "");
}

/** What of this tab's payments is unsettled, or has bought an answer that may be had again. */
export function recall(): KeptInBrowser | null {
  let kept: KeptInBrowser | null = history.state;
  try {
    // A site may have left something of its own in the history. Null is JSON, too.
    if (!kept?.header) kept = JSON.parse(sessionStorage.getItem(NAME) as string);
  } catch {}
  if (!kept?.header) return null;
  return kept.soldMs && Date.now() - kept.soldMs > ANSWER_MS ? null : kept;
}
