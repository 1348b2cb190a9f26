/**
 * The tables of the proxy's bench: what a request costs each contender as a multiple of nginx, and each
 * aim with what was reached. Beside the median of the rounds stands the one in which the contender took
 * least, which is the one that was least disturbed by whatever else the machine did.
 */
import { columns, say } from "../report.ts";
import type { Measured } from "../rounds.ts";
import { NGINX, OURS, OURS_BEFORE, X402 } from "./stage.ts";

/** What the same request may take as a multiple of what it took before. */
const NO_SLOWER = { aim: 1.02 };

export interface AimRow {
  readonly text: string;
  /** By the median of the rounds. */
  readonly value: number;
  /** By the least disturbed rounds; this is what counts. Undefined where there are none. */
  readonly least?: number;
  readonly aim: number;
  readonly stretch?: number;
}

export interface Bounds {
  readonly aim: number;
  readonly stretch?: number;
}

/** One table, and the aims for what ours takes as a multiple of nginx, of x402-express and of the version before. */
export function report(
  title: string,
  measured: readonly Measured[],
  bounds: { readonly nginx?: Bounds; readonly x402?: Bounds } = {},
): AimRow[] {
  sayMultiples(title, measured);
  const rows: AimRow[] = [];
  for (const [peer, bound] of [
    [NGINX, bounds.nginx],
    [X402, bounds.x402],
    [OURS_BEFORE, NO_SLOWER],
  ] as const) {
    const ours = measured.find(({ name }) => name === OURS);
    const theirs = measured.find(({ name }) => name === peer);
    if (bound === undefined || ours === undefined || theirs === undefined) continue;
    rows.push({
      text: `${title}: CPU as a multiple of ${peer}`,
      value: ours.cpuMicros / theirs.cpuMicros,
      least: ours.cpuRange[0] / theirs.cpuRange[0],
      ...bound,
    });
  }
  return rows;
}

/** Names of peers as they fit into a table's head. */
const SHORT = new Map<string, string>([
  [X402, "x402"],
  [OURS_BEFORE, "before"],
]);

function sayMultiples(title: string, measured: readonly Measured[]): void {
  const find = (wanted: string) => measured.find(({ name }) => name === wanted);
  const base = find(NGINX) ?? find(X402) ?? find(OURS_BEFORE);
  const times = base === undefined ? "" : `× ${SHORT.get(base.name) ?? base.name}`;
  const head = ["", "CPU µs", "least", times, "least", "answers/s", times, "p50 ms", "p99"];
  const rows = measured.map((each) => [
    each.name,
    each.cpuMicros.toFixed(1),
    each.cpuRange[0].toFixed(1),
    ratio(each.cpuMicros, base?.cpuMicros),
    ratio(each.cpuRange[0], base?.cpuRange[0]),
    each.perSecond.toFixed(0),
    ratio(each.perSecond, base?.perSecond),
    each.p50Ms.toFixed(1),
    each.p99Ms.toFixed(1),
  ]);
  say(`\n${title}`);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
}

function ratio(value: number, base: number | undefined): string {
  return base === undefined ? "" : (value / base).toFixed(2);
}

export function sayAims(rows: readonly AimRow[]): void {
  const head = ["", "median", "least disturbed", "aim", "", "stretch", ""];
  const lines = rows.map(({ text, value, least, aim, stretch }) => {
    const counts = least ?? value;
    const verdict = (bound: number): string => (counts <= bound ? "reached" : "MISSED");
    return [
      text,
      value.toFixed(2),
      least?.toFixed(2) ?? "",
      `≤ ${aim}`,
      verdict(aim),
      ...(stretch === undefined ? ["", ""] : [`≤ ${stretch}`, verdict(stretch)]),
    ];
  });
  say("\nAims");
  for (const line of columns([head, ...lines])) say(`  ${line}`);
}
