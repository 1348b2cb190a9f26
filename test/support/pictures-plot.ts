/** A plot of the table "How it compares" in `test/README.md`, as SVG: coinslot's CPU beside each peer's. */

/** One comparison of the table. */
export interface Comparison {
  /** What is done: "a free route, GET 1 KiB". */
  readonly work: string;
  readonly peer: string;
  /** coinslot's CPU for it divided by the peer's, as it is written: "0.40". */
  readonly ratio: string;
}

const HEADING = "## How it compares";
/** A column is found by its title. */
const COLUMNS = { work: "work", beside: "beside it", ratio: "ratio of CPU" } as const;

/**
 * Every row that names a peer ("NAME: figure") and a ratio ("0.40 (…)"). A row without its work goes on with that of
 * the row before.
 * @throws {TypeError} where there is no such table
 */
export function comparisonsOf(paper: string): readonly Comparison[] {
  const [, below = ""] = paper.split(HEADING);
  const rows = (/(?:^\|.*\n)+/m.exec(below)?.[0] ?? "")
    .trimEnd()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()));
  const [titles = [], , ...figures] = rows;
  const [work, beside, ratio] = Object.values(COLUMNS).map((title) => titles.indexOf(title));
  if (work === undefined || beside === undefined || ratio === undefined || ratio < 0) {
    throw new TypeError(`there is no table of ${Object.values(COLUMNS).join(", ")}`);
  }
  let last = "";
  return figures.flatMap((cells) => {
    last = cells[work] || last;
    const peer = /^(.*?): /.exec(cells[beside] ?? "")?.[1]?.replaceAll("`", "");
    const found = /^\d+(?:\.\d+)?/.exec(cells[ratio] ?? "")?.[0];
    if (peer === undefined || found === undefined) return [];
    return [{ work: last.replaceAll("`", ""), peer, ratio: found }];
  });
}

// Pixels.
const WIDTH = 880;
const MARGIN = 24;
const BARS_FROM = 356;
const BARS_TO = WIDTH - 76;
const TITLE_HEIGHT = 84;
const WORK_HEIGHT = 25;
const BAR_HEIGHT = 13;
const BAR_STEP = 19;
const GAP = 7;

// The scale is logarithmic: half and double are equally far from the same.
const LEAST = 0.1;
const MOST = 3;
const TICKS = [0.1, 0.2, 0.5, 1, 2, 3];

const INK = "#1f2328";
const DIM = "#59636e";
const LINE = "#d1d9e0";
const LESS = "#1a7f64";
const MORE = "#b35900";

/** Where a ratio is, pixels from the left; what is beyond the scale is at its end. */
function place(ratio: number): number {
  const share = Math.log(Math.min(Math.max(ratio, LEAST), MOST) / LEAST) / Math.log(MOST / LEAST);
  return BARS_FROM + share * (BARS_TO - BARS_FROM);
}

/** The whole file. */
export function benchPlot(paper: string): string {
  const works = Map.groupBy(comparisonsOf(paper), ({ work }) => work);
  const marks: string[] = [];
  let y = TITLE_HEIGHT;
  for (const [work, each] of works) {
    marks.push(text({ x: MARGIN, y: y + 16, weight: 600 }, work));
    y += WORK_HEIGHT;
    for (const comparison of each) {
      marks.push(...bar(comparison, y));
      y += BAR_STEP;
    }
    y += GAP;
  }
  const height = y + MARGIN;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13">`,
    "<title>CPU of coinslot beside others, for the same work</title>",
    `<rect width="${WIDTH}" height="${height}" rx="6" fill="#fff"/>`,
    text(
      { x: MARGIN, y: 32, weight: 600, size: 16 },
      "CPU for the same work: coinslot beside others",
    ),
    ...TICKS.flatMap((tick) => axis(tick, y)),
    ...marks,
    "</svg>",
  ].join("\n")}\n`;
}

function axis(tick: number, bottom: number): string[] {
  const x = round(place(tick));
  const colour = tick === 1 ? DIM : LINE;
  const label = tick === 1 ? "the same" : `${tick} ×`;
  return [
    `<path d="M${x} ${TITLE_HEIGHT - 6}V${bottom}" stroke="${colour}"/>`,
    text({ x, y: TITLE_HEIGHT - 12, anchor: "middle", fill: DIM, size: 12 }, label),
  ];
}

function bar({ peer, ratio }: Comparison, y: number): string[] {
  const [from, to] = [place(1), place(Number(ratio))];
  const [left, width] = [Math.min(from, to), Math.abs(from - to)];
  const isLess = Number(ratio) < 1;
  const middle = y + BAR_HEIGHT - 2;
  const beside = { x: round(isLess ? to - 6 : to + 6), y: middle, size: 12 };
  return [
    text({ x: BARS_FROM - 50, y: middle, anchor: "end" }, peer),
    `<rect x="${round(left)}" y="${y}" width="${round(width)}" height="${BAR_HEIGHT}" fill="${isLess ? LESS : MORE}"/>`,
    text({ ...beside, anchor: isLess ? "end" : "start" }, ratio),
  ];
}

interface TextStyle {
  readonly x: number;
  readonly y: number;
  readonly anchor?: "start" | "middle" | "end";
  readonly weight?: number;
  readonly size?: number;
  readonly fill?: string;
}

function text(style: TextStyle, said: string): string {
  const { x, y, anchor = "start", weight = 400, size = 13, fill = INK } = style;
  const escaped = said.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" font-weight="${weight}" font-size="${size}" fill="${fill}">${escaped}</text>`;
}

function round(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}
