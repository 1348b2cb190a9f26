/** The report of `listing` for people: the places, then for each route a line for each of them. */
import type { ListingReport, ListingState } from "../../diagnosis/listing/route-listings.ts";
import { printable } from "../../config/config.ts";

const GREEN = 32;
const YELLOW = 33;
const RED = 31;
const BOLD = 1;

const COLORS: Readonly<Record<ListingState, number>> = {
  listed: GREEN,
  "other-terms": RED,
  missing: RED,
  rejected: RED,
  unreadable: RED,
  "no-sale-yet": YELLOW,
  "no-listing": YELLOW,
  "not-shown": YELLOW,
  "switched-off": YELLOW,
  "not-discoverable": YELLOW,
  "not-settled-there": YELLOW,
};

/** Wide enough for every state. */
const STATE_COLUMNS = Math.max(...Object.keys(COLORS).map(({ length }) => length));

export function listingText(
  { places, routes, salesUnknown, saidUnknown }: ListingReport,
  color: boolean,
): string {
  const paint = (code: number, text: string): string =>
    color ? `\u001b[${code}m${text}\u001b[0m` : text;
  const asked = places.map(({ name, url, detail }) => {
    return `  ${printable(`${name === "own" ? `own (${url})` : name}: ${detail}`)}\n`;
  });
  const shown = routes.map(({ key, places: at }) => {
    const lines = at.map(({ place, state, detail, resources }) => {
      const [first] = resources;
      const where = first === undefined ? "" : ` (${first})`;
      const said = printable(`${place}: ${detail}${where}`);
      return `  ${paint(COLORS[state], state.padEnd(STATE_COLUMNS))}  ${said}\n`;
    });
    return `${paint(BOLD, printable(key))}\n${lines.join("")}`;
  });
  const sales =
    salesUnknown === null ? "" : `\nwhat was sold is not known: ${printable(salesUnknown)}\n`;
  const said =
    saidUnknown === null
      ? ""
      : `\nwhat facilitators said of listing is not known: ${printable(saidUnknown)}\n`;
  const count = routes.filter(({ places: at }) =>
    at.some(({ state }) => state === "listed"),
  ).length;
  return (
    `${paint(BOLD, "Listings")}\n${asked.join("")}\n${shown.join("\n")}${sales}${said}\n` +
    `${count} of ${routes.length} priced routes are listed with their present terms\n`
  );
}
