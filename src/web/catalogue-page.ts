/**
 * The page for people of what is for sale: a row for each priced route that leads to it, and behind it its prices,
 * what it wants to be sent, and what can be copied. It is whole without its script, which only searches while one
 * types and copies at a click.
 */
import type { X402Version } from "../x402/x402.ts";
import { clientCode, priceCommand } from "./catalogue-command.ts";
import bundled from "./catalogue-script.json" with { type: "json" };
import { CATALOGUE_CSS } from "./catalogue-style.ts";
import type {
  CatalogueGroup,
  CatalogueInput,
  CataloguePrice,
  CatalogueRoute,
  CatalogueView,
} from "./catalogue-view.ts";
import { documentKind } from "./document.ts";
import { html, type Html } from "./html.ts";

const { open, policy } = documentKind(CATALOGUE_CSS, bundled.script);

/** Value of `Content-Security-Policy`. */
export const CATALOGUE_POLICY = policy;

/** Longest description that is shown whole, and longest text of an input, characters. */
const MAX_DESCRIPTION = 600;
const MAX_INPUT_TEXT = 160;
/** Longest sample that is shown whole, characters. */
const MAX_SAMPLE = 1_500;

export function cataloguePage(view: CatalogueView): string {
  const { shop, query } = view;
  const title = `For sale at ${shop}`;
  return open(
    title,
    html`<main>
<h1>${title}</h1>
<p class="dim">Each of these is paid for by the request, over x402: no account and no key of the seller's.</p>
<form method="get" role="search" id="search">
<label>Search <input name="q" type="search" value="${query}" maxlength="100" autocomplete="off"></label>
<button>Search</button>
</form>
<div id="results">
${resultsOf(view)}</div>
<p id="said" class="hidden-text" role="status"></p>
</main>`,
  );
}

function resultsOf(view: CatalogueView): Html {
  const { groups, found, query, version } = view;
  const what = found === 1 ? "1 resource" : `${found} resources`;
  return html`<p id="count">${query === "" ? what : `${what} for “${query}”`}</p>
${groups.map((group) => groupOf(group, version))}
${pagesOf(view)}`;
}

function pagesOf({ page, pages, query }: CatalogueView): Html | null {
  if (pages <= 1) return null;
  const link = (to: number, text: string): Html =>
    to < 1 || to > pages
      ? html`<span class="dim">${text}</span>`
      : html`<a href="${hrefOf(query, to)}">${text}</a>`;
  return html`<nav aria-label="Pages">${link(page - 1, "Previous")}
<span>Page ${page} of ${pages}</span> ${link(page + 1, "Next")}</nav>`;
}

function hrefOf(query: string, page: number): string {
  const search = new URLSearchParams();
  if (query !== "") search.set("q", query);
  if (page > 1) search.set("page", String(page));
  return `?${search.toString()}`;
}

function groupOf({ name, routes }: CatalogueGroup, version: X402Version): Html {
  return html`<section>${name !== null && html`<h2 dir="auto">${clipped(name, MAX_INPUT_TEXT)}</h2>`}
<ul class="list">
${routes.map((route) => routeItem(route, version))}</ul></section>
`;
}

function routeItem(route: CatalogueRoute, version: X402Version): Html {
  const { methods, shown, url, href, missing, description, prices, quality } = route;
  const [first] = prices;
  const method = methods?.join(", ") ?? "Any method";
  const path = html`<code>${shown}</code>`;
  return html`<li class="card"><article>
<div class="line"><h3><span class="method">${method}</span> ${href === null ? path : html`<a href="${href}">${path}</a>`}</h3>
<span class="price">${first === undefined ? "" : (first.dollars ?? first.amount)}</span></div>
${description !== "" && html`<p class="about" dir="auto">${clipped(description, MAX_DESCRIPTION)}</p>`}
<details><summary>Details<span class="hidden-text"> of ${method} ${shown}</span>${quality !== "" && html`<span class="dim"> · ${quality}</span>`}</summary>
${missing.length > 0 && html`<p>Put a value in place of ${missing.map((each, index) => html`${index > 0 && " and "}<code>{${each}}</code>`)}.</p>`}
<ul class="prices">${prices.map(priceItem)}</ul>
${(route.ways ?? []).map((way) => html`<p>Or: ${way}.</p>`)}
${route.credits !== undefined && html`<p>Or from <a href="${route.credits}">credits</a> that were bought before.</p>`}
${inputsOf(route)}
${answerOf(route)}
${
  url !== null &&
  html`${commandOf("Ask for the price", priceCommand({ ...route, url }))}
${commandOf("Buy it in a program", clientCode({ ...route, url }, version))}`
}
</details></article></li>
`;
}

function answerOf({ mimeType, sample }: CatalogueRoute): Html | null {
  if (mimeType === "" && sample === null) return null;
  return html`<h4>What comes back${mimeType !== "" && html`: <code>${mimeType}</code>`}</h4>
${sample !== null && html`<pre><code>${clipped(sample, MAX_SAMPLE)}</code></pre>`}`;
}

function priceItem({ amount, amountAtomic, network, asset }: CataloguePrice): Html {
  return html`<li><b>${amount}</b> on ${network} <span class="dim mono">${amountAtomic} units of ${asset}</span></li>`;
}

function inputsOf({ inputs, bodyType }: CatalogueRoute): Html | null {
  if (inputs.length === 0 && bodyType === null) return null;
  return html`<h4>To send${bodyType !== null && ` (the body as ${bodyType})`}</h4>
<dl>${inputs.map(inputItem)}</dl>`;
}

function inputItem(input: CatalogueInput): Html {
  const { place, name, type, isRequired, description, example } = input;
  const told = example === undefined ? "" : (JSON.stringify(example) ?? "");
  const facts = [place, type, isRequired ? "required" : "optional"].filter((each) => each !== "");
  return html`<dt><code>${clipped(name, MAX_INPUT_TEXT)}</code></dt>
<dd><span class="dim">${facts.join(", ")}</span> ${clipped(description, MAX_INPUT_TEXT)}
${told !== "" && html`<code>${clipped(told, MAX_INPUT_TEXT)}</code>`}</dd>`;
}

function commandOf(label: string, command: string): Html {
  return html`<div class="command"><span class="dim">${label}</span>
<button type="button" class="quiet copy" hidden>Copy<span class="hidden-text"> ${label}</span></button>
<pre><code>${command}</code></pre></div>`;
}

function clipped(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
