/**
 * The page for people of what is for sale: each priced route with its prices, what it wants to be sent, and a
 * command to copy. It is whole without its script, which only searches while one types and copies at a click.
 */
import { clientCode, payCommand } from "./catalogue-command.ts";
import bundled from "./catalogue-script.json" with { type: "json" };
import { CATALOGUE_CSS } from "./catalogue-style.ts";
import type {
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
  const { routes, found, query } = view;
  const what = found === 1 ? "1 resource" : `${found} resources`;
  return html`<p id="count">${query === "" ? what : `${what} for “${query}”`}</p>
<ul class="list">
${routes.map(routeItem)}</ul>
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

function routeItem(route: CatalogueRoute): Html {
  const { methods, pattern, description, mimeType, prices, parameters } = route;
  const [first] = prices;
  return html`<li class="card"><article>
<div class="line"><h2><span class="method">${methods?.join(", ") ?? "Any method"}</span> <code>${pattern}</code></h2>
<span class="price">${first === undefined ? "" : (first.dollars ?? first.amount)}</span></div>
${description !== "" && html`<p dir="auto">${clipped(description, MAX_DESCRIPTION)}</p>`}
${mimeType !== "" && html`<p class="dim">Answers with <code>${mimeType}</code></p>`}
${parameters.length > 0 && html`<p>A template: put a value in place of ${parameters.map((each, index) => html`${index > 0 && " and "}<code>${each}</code>`)}.</p>`}
<ul class="prices">${prices.map(priceItem)}</ul>
${inputsOf(route)}
${commandOf("Pay for it once", payCommand(route))}
<details><summary>In a program</summary>${commandOf("x402-fetch", clientCode(route))}</details>
</article></li>
`;
}

function priceItem({ amount, amountAtomic, network, asset }: CataloguePrice): Html {
  return html`<li><b>${amount}</b> on ${network} <span class="dim mono">${amountAtomic} units of ${asset}</span></li>`;
}

function inputsOf({ inputs, bodyType }: CatalogueRoute): Html | null {
  if (inputs.length === 0 && bodyType === null) return null;
  return html`<h3>To send${bodyType !== null && ` (the body as ${bodyType})`}</h3>
<dl>${inputs.map(inputItem)}</dl>`;
}

function inputItem({ place, name, type, isRequired, description }: CatalogueInput): Html {
  const facts = [place, type, isRequired ? "required" : "optional"].filter((each) => each !== "");
  return html`<dt><code>${clipped(name, MAX_INPUT_TEXT)}</code></dt>
<dd><span class="dim">${facts.join(", ")}</span> ${clipped(description, MAX_INPUT_TEXT)}</dd>`;
}

function commandOf(label: string, command: string): Html {
  return html`<div class="command"><span class="dim">${label}</span>
<button type="button" class="quiet copy" hidden>Copy<span class="hidden-text"> ${label}</span></button>
<pre><code>${command}</code></pre></div>`;
}

function clipped(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
