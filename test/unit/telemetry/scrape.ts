/**
 * A reader of the Prometheus text format (version 0.0.4), strict where a scraper is: every line is a
 * comment or a sample, each metric is announced before its samples and only once.
 */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Scrape {
  readonly samples: readonly Sample[];
  /** By metric name. */
  readonly types: ReadonlyMap<string, string>;
}

const COMMENT = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/;

/** Throws on what is not the format. */
export function readScrape(text: string): Scrape {
  if (!text.endsWith("\n")) throw new Error("the last line must end with a line feed");
  const samples: Sample[] = [];
  const types = new Map<string, string>();
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [, kind, announced = "", type = ""] = COMMENT.exec(line) ?? [];
    if (kind === undefined) samples.push(readSample(line, types));
    else if (kind === "TYPE" && types.has(announced)) throw new Error(`twice: ${announced}`);
    else if (kind === "TYPE") types.set(announced, type);
  }
  return { samples, types };
}

/** Values of one metric by its labels, written `a=1 b=2` in the order of the names. */
export function valuesIn(text: string, name: string): Readonly<Record<string, number>> {
  const ours = readScrape(text).samples.filter((sample) => sample.name === name);
  return Object.fromEntries(ours.map((sample) => [labelled(sample), sample.value]));
}

function labelled({ labels }: Sample): string {
  const names = Object.keys(labels).sort();
  return names.map((name) => `${name}=${labels[name]}`).join(" ");
}

function readSample(line: string, types: ReadonlyMap<string, string>): Sample {
  const [, name, labels = "", value = ""] = SAMPLE.exec(line) ?? [];
  if (name === undefined) throw new Error(`neither a comment nor a sample: ${line}`);
  const family = name.replace(/_(?:bucket|sum|count)$/, "");
  if (!types.has(name) && !types.has(family)) throw new Error(`${name} is not announced`);
  return { name, labels: readLabels(labels), value: readNumber(value) };
}

function readLabels(text: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {};
  let rest = text;
  while (rest !== "") {
    const [whole, name, value] = LABEL.exec(rest) ?? [];
    if (whole === undefined || name === undefined || value === undefined) {
      throw new Error(`not a label: ${rest}`);
    }
    if (name in labels) throw new Error(`the label ${name} is there twice`);
    labels[name] = value.replace(/\\(["\\n])/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
    rest = rest.slice(whole.length);
  }
  return labels;
}

function readNumber(text: string): number {
  const value = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
  if (Number.isNaN(value) && text !== "NaN") throw new Error(`not a number: ${text}`);
  return value;
}
