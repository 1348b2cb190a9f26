/**
 * The operator's page of recent requests: each as its stages from the 402 to the delivery, with what was
 * signed, how long it took, and what to do where it went wrong. It is whole without its script, which keeps it
 * up to date.
 */
import { documentKind } from "./document.ts";
import { html, type Html } from "./html.ts";
import bundled from "./requests-script.json" with { type: "json" };
import { REQUESTS_CSS } from "./requests-style.ts";
import type {
  FactView,
  ListFilterView,
  PaymentDetailsView,
  RequestView,
  StageView,
} from "./requests-view.ts";

const { open, policy } = documentKind(REQUESTS_CSS, bundled.script);

/** Value of `Content-Security-Policy` for every page here. */
export const REQUESTS_POLICY = policy;

/**
 * `version`: as of which the list is, for the events that follow. `stopped`: what is not sold for now, a sentence for
 * each.
 */
export function requestsPage(
  requests: readonly RequestView[],
  version: number,
  filter: ListFilterView,
  stopped: readonly string[] = [],
): string {
  const [newest] = requests;
  const { find, needsMe } = filter;
  const isAll = find === "" && !needsMe;
  const body = html`<header>
<h1>Payments</h1>
<form method="get" action="">
<label>Payer, path, payment key, transaction or nonce <input name="find" type="search" value="${find}" autocomplete="off" spellcheck="false"></label>
<label class="check">${needsMe ? html`<input name="needs" type="checkbox" value="me" checked>` : html`<input name="needs" type="checkbox" value="me">`} Needs me</label>
<button class="quiet">Show</button>
</form>
</header>
<main>
${stopped.map((each) => html`<p class="filter">Not sold now: ${each}</p>`)}
<p class="state"><span id="live" role="status" class="dim">Newest first, as of ${newest === undefined ? "now" : `${timeOf(newest.at)} UTC`}. Reload the page to see what came since.</span>
<button id="pause" class="quiet" type="button" hidden>Pause</button></p>
${!isAll && html`<p class="filter">Only ${filterText(filter)}. <a href="?">All requests</a></p>`}
<ol class="list" id="list" data-version="${version}" data-query="${queryOf(filter)}">
${requests.map(requestItem)}</ol>
<p class="empty card">${isAll ? "No request to a priced route yet." : "Nothing here fits that, and no payment has that name."}</p>
</main>`;
  return open("Payments: coinslot", body);
}

function filterText({ find, needsMe }: ListFilterView): Html {
  const said = html`with <span class="mono">${find}</span>`;
  if (find === "") return html`what needs you`;
  return needsMe ? html`what needs you, ${said}` : said;
}

/** For the events that follow. */
function queryOf({ find, needsMe }: ListFilterView): string {
  const query = new URLSearchParams({
    ...(find !== "" && { find }),
    ...(needsMe && { needs: "me" }),
  });
  return query.toString();
}

/** One entry of the list; also what an event brings. */
export function requestItem(request: RequestView): Html {
  const { id, at, title, query, outcome, tone, status, ms, stages, error, advice } = request;
  return html`<li id="r-${id}"><article class="card request ${tone}">
<div class="line"><time class="dim" datetime="${at}">${timeOf(at)}</time><h2>${title}</h2>
${query !== "" && html`<span class="query mono">${query}</span>`}
${request.needsOperator && html`<strong class="needs">Needs you</strong>`}
<span class="end">${outcome}${status !== null && ` (${status})`}</span>
${ms !== null && html`<span class="dim">${duration(ms)}</span>`}</div>
${saleOf(request)}
<ol class="stages" aria-label="Stages">${stages.map(stageItem)}</ol>
${error !== null && html`<p class="error mono">${error}</p>`}
<p class="advice">${sentence(advice)}</p>
${detailsOf(request)}</article></li>
`;
}

/** What is paid, and who pays it. */
function saleOf({ amount, payer, isPayerKnown }: RequestView): Html | false {
  if (amount === "" && payer === "") return false;
  const named = html`<span class="mono">${shortened(payer)}</span>`;
  const link = html`<a href="?find=${encodeURIComponent(payer)}" title="${payer}">${named}</a>`;
  return html`<p class="sale">${amount}${payer !== "" && html` from ${isPayerKnown ? link : named}`}</p>`;
}

/** Longest name of a payer that is shown whole, characters. */
const MAX_PAYER = 14;

function shortened(payer: string): string {
  return payer.length > MAX_PAYER ? `${payer.slice(0, 6)}…${payer.slice(-4)}` : payer;
}

const STATES: Readonly<Record<StageView["state"], string>> = {
  none: "not reached",
  running: "under way",
  good: "done",
  bad: "failed",
};

function stageItem({ name, state, ms, note }: StageView): Html {
  const time = ms === null ? "" : duration(ms);
  return html`<li class="${state}"><b>${name}</b><span class="hidden-text">${STATES[state]} </span>${time}
<span class="note">${note}</span></li>`;
}

function detailsOf({ payload, ledger }: RequestView): Html {
  const parts = [
    payload.length > 0 && html`<div><h3>Request</h3>${factList(payload)}</div>`,
    ledger.length > 0 && html`<div><h3>Ledger</h3>${factList(ledger)}</div>`,
  ];
  return html`<details><summary>Details</summary><div class="two">${parts}</div></details>`;
}

function factList(facts: readonly FactView[]): Html {
  return html`<dl>${facts.map(
    ({ label, text, href }) =>
      html`<dt>${label}</dt><dd>${href === undefined ? text : html`<a href="${href}" rel="noreferrer">${text}</a>`}</dd>`,
  )}</dl>`;
}

/** Everything about one payment, or that there is none. */
export function paymentPage(payment: PaymentDetailsView | undefined): string {
  const back = html`<p><a href="?">All requests</a></p>`;
  if (payment === undefined) {
    const text = "No payment has this key, transaction or nonce.";
    return open(
      "Payment not found: coinslot",
      html`<main><h1>Payment</h1><p>${text}</p>${back}</main>`,
    );
  }
  const { state, advice, facts, history } = payment;
  const events = history.map(({ at, state: after, note, by }) => {
    const said = note === "" ? after : `${after}: ${note}`;
    return { label: timeOf(at), text: `${said} (by ${by})` };
  });
  const body = html`<main>
<h1>Payment: ${state.toLowerCase()}</h1>
${back}
<p>${sentence(advice)}</p>
<div class="card">${factList(facts)}</div>
<h2>History</h2>
<div class="card">${factList(events)}</div>
</main>`;
  return open("Payment: coinslot", body);
}

/** `2026-08-01 12:00:00.123` */
function timeOf(iso: string): string {
  return iso.replace("T", " ").replace("Z", "");
}

const MS_PER_SECOND = 1000;
const SHORT_MS = 10;

function duration(ms: number): string {
  if (ms >= MS_PER_SECOND) return `${(ms / MS_PER_SECOND).toFixed(2)} s`;
  return `${ms.toFixed(ms < SHORT_MS ? 1 : 0)} ms`;
}

function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
