/** Rules as a table, and one request's explanation as a page, for people. */
import { STATUS_CODES } from "node:http";
import { printable } from "../../config/config.ts";
import type { ExplanationView, PriceView, RulesView, RuleView, SiteView } from "./routes-view.ts";

const COLORS = { priced: 33, free: 32, deny: 31, heading: 1 } as const;
const HEAD = ["METHODS", "PATTERN", "PRICE", "UPSTREAM", "LINE"];
/** What stands for no value. */
const NOTHING = "-";

type Cells = readonly string[];

/** A table for the file's own site, where it has one, and one for each host, under its name. */
export function rulesText({ hosts = [], ...own }: RulesView, color: boolean): string {
  const tables = hosts.map(({ host, ...view }) => `${host}\n${ruleTable(view, color)}`);
  const first = own.rules.length === 0 && hosts.length > 0 ? [] : [ruleTable(own, color)];
  return [...first, ...tables].join("\n");
}

/** One line for each way to pay; the rules in the order in which they win. */
function ruleTable(
  { listing, documents, mcp, rules, unmatched }: SiteView,
  color: boolean,
): string {
  const own: readonly Cells[] = [...(listing === null ? [] : [listing]), ...documents].map(
    (path) => {
      return ["GET,HEAD", path, "free (the gateway's own)", NOTHING, NOTHING];
    },
  );
  const rows = [
    ...own,
    ...(mcp === undefined ? [] : [["POST", mcp, "free (tools, MCP)", NOTHING, NOTHING]]),
    ...rules.flatMap(ruleRows),
    ["*", "unmatched", unmatched.action, unmatched.upstream ?? NOTHING, NOTHING],
  ];
  const lines = [HEAD, ...rows].map((row) => row.map((cell) => printable(cell)));
  const widths = HEAD.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines
    .map((line, number) => {
      const cells = line.map((cell, index) => cell.padEnd(widths[index] ?? 0));
      const priceCell = cells[2] ?? "";
      if (color && number > 0) cells[2] = paint(colorOf(line[2] ?? ""), priceCell);
      return `${cells.join("  ").trimEnd()}\n`;
    })
    .join("");
}

function ruleRows({
  methods,
  pattern,
  action,
  prices,
  upstream,
  line,
  settle,
  meter,
  members = {},
  holders = {},
  ways = [],
  tools = [],
  noTool,
}: RuleView): readonly Cells[] {
  const most = meter === undefined ? "" : "up to ";
  const when = settle === undefined ? "" : ", after the work";
  const [first, ...others] =
    action === "priced" ? prices.map((price) => most + priceText(price) + when) : [action];
  return [
    [methods?.join(",") ?? "*", pattern, first ?? NOTHING, upstream ?? NOTHING, String(line)],
    ...[
      ...others,
      ...Object.entries(members).map((each) => memberText(each, holders)),
      ...ways,
      ...(tools.length > 0 ? [`tool ${tools.join(", ")}`] : []),
      ...(noTool === undefined ? [] : [`no tool: ${noTool}`]),
    ].map((price) => {
      return ["", "", price, "", ""];
    }),
  ];
}

/** `partners: 0.005 USDC on base`, `rich (holds 5 USDC on base): free` */
function memberText(
  [group, prices]: readonly [string, readonly PriceView[]],
  holders: NonNullable<RuleView["holders"]>,
): string {
  const held = holders[group];
  const who = held === undefined ? group : `${group} (${held})`;
  return `${who}: ${prices.length === 0 ? "free" : prices.map(priceText).join(", ")}`;
}

/** `0.01 USDC on base` */
function priceText({ amount, least, symbol, network }: PriceView): string {
  const range = least === undefined || least === amount ? amount : `${least} to ${amount}`;
  return `${range} ${symbol} on ${network}`;
}

function colorOf(price: string): number {
  if (price.startsWith("free")) return COLORS.free;
  return price === "deny" ? COLORS.deny : COLORS.priced;
}

type Row = readonly [label: string, text: string];

export function explanationPage(
  view: ExplanationView,
  { color }: { readonly color: boolean },
): string {
  const { method, target, path, query, outcome, why, rule, beaten, upstream, notes } = view;
  const paintKey = (text: string): string => (color ? paint(COLORS.heading, text) : text);
  const rows: Row[] = [
    ["path", path === null ? "refused" : path],
    ...(query === "" ? [] : [["query", query] as const]),
    ["outcome", outcome],
    ["why", why],
    ...(rule === null ? [] : [["rule", `${rule.key}  (${rule.file}:${rule.line})`] as const]),
    ...beaten.map(({ key, line, why: reason }): Row => [
      "beaten",
      `${key}  (line ${line}) ${reason}`,
    ]),
    ...(rule?.prices ?? []).map((price): Row => {
      const most = rule?.meter === undefined ? "" : "0 to ";
      return ["price", `${most}${priceText(price)} to ${price.payTo}`];
    }),
    ...meteredRows(rule),
    ...computedRows(view),
    ...upstreamRows(upstream, outcome),
    ...notes.map((note): Row => ["note", note]),
  ];
  const width = Math.max(...rows.map(([label]) => label.length));
  const lines = rows.map(([label, text]) => `  ${label.padEnd(width)}  ${printable(text)}\n`);
  return `${paintKey(printable(`${method} ${target}`))}\n${lines.join("")}${answerText(view)}`;
}

/** What an answer costs, which nobody knows before it is there. */
function meteredRows(rule: RuleView | null): readonly Row[] {
  if (rule?.meter === undefined) return [];
  const { of, each, max } = rule.meter;
  return [
    ["charged", `${each} for each unit of ${of.join(" or ")}, at most ${max}, which is paid first`],
  ];
}

/** What this request costs, and by what. */
function computedRows({ rule, price }: ExplanationView): readonly Row[] {
  if (rule?.computed === undefined || price == null) return [];
  const { dollars, why } = price;
  return [
    ["computed", `${dollars ?? "no price"}${why === null ? "" : `: ${why}`}`],
    ["by", rule.computed.replace(/\s+/g, " ").trim()],
  ];
}

function upstreamRows(upstream: ExplanationView["upstream"], outcome: string): readonly Row[] {
  if (upstream === null) return [];
  const { upstream: name, targets, target, host } = upstream;
  const when = outcome === "priced" ? "once paid, " : "";
  const sent = target === null ? "nothing: the path is outside of what it serves" : target;
  return [
    ["upstream", `${when}${name}: ${targets.join(", ")}`],
    ["sent", host === null ? sent : `${sent} with Host: ${host}`],
  ];
}

/** As on the wire, but for the line breaks in the body. */
function answerText({ answer }: ExplanationView): string {
  if (answer === null) return "";
  const { status, headers, body } = answer;
  const head = [
    `HTTP ${status} ${STATUS_CODES[status] ?? ""}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  const text = body === null ? "" : `\n${JSON.stringify(body, null, 2)}\n`;
  const lines = `${head.join("\n")}\n${text}`.split("\n");
  return `\n${lines.map((line) => printable(line)).join("\n")}`;
}

function paint(code: number, text: string): string {
  return `\u001b[${code}m${text}\u001b[0m`;
}
