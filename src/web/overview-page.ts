/**
 * The operator's overview, for those who have no dashboard: what waits for him, what was earned, what became of requests,
 * and how long backends took. Its plots are drawn here; it is whole without its script, which keeps it up to date.
 */
import { documentKind } from "./document.ts";
import { html, type Html } from "./html.ts";
import bundled from "./overview-script.json" with { type: "json" };
import { OVERVIEW_CSS } from "./overview-style.ts";
import type {
  EarnedView,
  MoneyView,
  NeedView,
  OverviewView,
  UnitView,
  WaitView,
} from "./overview-view.ts";

const { open, policy } = documentKind(OVERVIEW_CSS, bundled.script);

/** Value of `Content-Security-Policy`. */
export const OVERVIEW_POLICY = policy;

/** Units of a plot's own: the height of its best day, and the width of a day. */
const HEIGHT = 100;
const DAY = 10;

/** Each part that may change is a section with a name, by which the script puts another in its place. */
export function overviewPage(view: OverviewView): string {
  const { at, isReady, said, needs, money, flow, waits } = view;
  const body = html`<header>
<h1>Overview</h1>
<span id="live" role="status" class="dim">As of ${timeOf(at)} UTC. Reload the page to see what came since.</span>
<nav aria-label="More"><a href="/payments">Payments</a><a href="/metrics">Metrics</a></nav>
</header>
<main>
<section id="needs" class="card"><h2>Needs you</h2>
${needsOf(needs)}
<p class="state ${isReady ? "good" : "bad"}">${isReady ? "Ready" : "Not ready"}</p>
${said.length > 0 && html`<ul>${said.map((each) => html`<li>${each}</li>`)}</ul>`}</section>
<section id="money">${typeof money === "string" ? html`<div class="card"><h2>Money</h2><p>${money}</p></div>` : moneyOf(money)}</section>
<section id="flow" class="card"><h2>From the 402 to the goods</h2>
<p class="dim">Since this process began, ${dateOf(flow.since)} UTC.</p>
${stepsOf(flow.steps)}</section>
<section id="waits" class="card"><h2>Backends</h2>
${waits.length === 0 ? html`<p>No request has reached a backend yet.</p>` : waitsOf(waits)}</section>
</main>`;
  return open("Overview: coinslot", body);
}

function needsOf(needs: readonly NeedView[]): Html {
  if (needs.length === 0) return html`<p class="good">Nothing does.</p>`;
  const items = needs.map(
    ({ text, command }) => html`<li>${text}${command !== "" && html`<code>${command}</code>`}</li>`,
  );
  return html`<ul class="needs">${items}</ul>`;
}

function moneyOf({ at, units, routes, networks }: MoneyView): Html {
  const { shown, more } = routes;
  return html`<div class="units">
${units.length === 0 ? html`<div class="card"><h2>Money</h2><p>Nothing was sold in the last thirty days.</p></div>` : units.map(unitOf)}</div>
<p class="dim">The books as of ${timeOf(at)} UTC; days are those of UTC.</p>
${
  shown.length > 0 &&
  html`<div class="card"><h2>By route</h2>${earnedTable("Route", shown)}
${more > 0 && html`<p class="dim">and ${more} more: coinslot books FILE --by route</p>`}</div>`
}
${networks.length > 0 && html`<div class="card"><h2>By network</h2>${earnedTable("Network", networks)}</div>`}`;
}

function unitOf({ symbol, today, all, refunded, sales, days }: UnitView): Html {
  const bars = days.map(({ day, amount, share }, index) => {
    const height = Math.round(share * HEIGHT);
    return html`<rect x="${index * DAY + 1}" y="${HEIGHT - height}" width="${DAY - 2}" height="${height}"><title>${day}: ${amount} ${symbol}</title></rect>`;
  });
  const label = `${symbol} of each day, from ${days[0]?.day ?? ""} to ${days.at(-1)?.day ?? ""}`;
  return html`<div class="card"><h2>${symbol}</h2>
<p class="sum">${today} <span class="dim">today</span></p>
<p>${all} in thirty days, by ${sales} ${sales === 1 ? "sale" : "sales"}${refunded !== "0" && html`; ${refunded} paid back`}</p>
<svg class="chart" viewBox="0 0 ${days.length * DAY} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}"><line x1="0" y1="${HEIGHT}" x2="${days.length * DAY}" y2="${HEIGHT}"/>${bars}</svg>
<p class="days dim"><span>${days[0]?.day ?? ""}</span><span>today</span></p></div>
`;
}

function earnedTable(head: string, rows: readonly EarnedView[]): Html {
  const hasGas = rows.some(({ gas }) => gas !== "");
  const lines = rows.map(
    ({ name, sales, today, all, gas }) =>
      html`<tr><td>${name}</td><td class="n">${sales}</td><td class="n">${today}</td><td class="n">${all}</td>${hasGas && html`<td class="n">${gas}</td>`}</tr>`,
  );
  return html`<div class="wide" tabindex="0" role="group" aria-label="By ${head}"><table><thead><tr><th scope="col">${head}</th><th scope="col" class="n">Sales</th><th scope="col" class="n">Today</th><th scope="col" class="n">Thirty days</th>${hasGas && html`<th scope="col" class="n">Gas</th>`}</tr></thead><tbody>${lines}</tbody></table></div>`;
}

function stepsOf(steps: OverviewView["flow"]["steps"]): Html {
  const most = Math.max(1, ...steps.map(({ count }) => count));
  const items = steps.map(({ name, count }) => {
    const width = Math.round((count / most) * HEIGHT);
    return html`<li><span>${name}</span><b>${count}</b><svg viewBox="0 0 ${HEIGHT} 1" preserveAspectRatio="none" aria-hidden="true"><rect width="${width}" height="1"/></svg></li>`;
  });
  return html`<ol class="flow">${items}</ol>`;
}

function waitsOf(waits: readonly WaitView[]): Html {
  const lines = waits.map(
    ({ route, requests, halfMs, mostMs }) =>
      html`<tr><td>${route}</td><td class="n">${requests}</td><td class="n">${milliseconds(halfMs)}</td><td class="n">${milliseconds(mostMs)}</td></tr>`,
  );
  return html`<p class="dim">How long they took since this process began, as far as the buckets of the metrics tell.</p>
<div class="wide" tabindex="0" role="group" aria-label="By route"><table><thead><tr><th scope="col">Route</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Half within</th><th scope="col" class="n">95 % within</th></tr></thead><tbody>${lines}</tbody></table></div>`;
}

function milliseconds(ms: number): string {
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** `15:04:05` of an ISO 8601 time. */
function timeOf(at: string): string {
  return at.slice(11, 19);
}

/** `2026-11-27 15:04` of an ISO 8601 time. */
function dateOf(at: string): string {
  return `${at.slice(0, 10)} ${at.slice(11, 16)}`;
}
