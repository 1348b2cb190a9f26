/**
 * Metrics as a scraper reads them: in Prometheus' text format (version 0.0.4), or in OpenMetrics 1.0.0, which has
 * exemplars, where it asks for that. Written here and not by prom-client because a scrape of hundreds of routes
 * stops the event loop for as long as this takes.
 */

/** A trace or a payment of which an observation comes, to be looked up elsewhere. */
export interface Exemplar {
  /** Rendered: `trace_id="…"`. */
  readonly labels: string;
  readonly value: number;
}

/** The second crosses to another process in one piece. */
type Values = readonly number[] | Float64Array;

/** The values of one label set. */
export interface SampleRow {
  /** Rendered and escaped, without braces: `route="GET /a",code="200"`. */
  readonly labels: string;
  /** One value; of a histogram the count of each bucket, not cumulative, that of `+Inf` last, and then the sum. */
  readonly values: Values;
  /** Of a histogram, by bucket. */
  readonly exemplars?: readonly (Exemplar | undefined)[] | undefined;
}

/** All that is known of one metric. Plain values, which may cross to another process. */
export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** How values of several processes become one. */
  readonly merge: "sum" | "min" | "max" | "first";
  /** Of a histogram: upper limits of its buckets, ascending, without `+Inf`. */
  readonly bounds?: readonly number[] | undefined;
  readonly rows: readonly SampleRow[];
}

export type Format = "text" | "openmetrics";

export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  text: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** What a scraper prefers, by its `Accept`; the text format where it does not say. */
export function formatFor(accept: string | undefined): Format {
  let best: Format = "text";
  let bestQuality = 0;
  for (const each of accept?.split(",") ?? []) {
    const [type = "", ...parameters] = each.split(";").map((part) => part.trim().toLowerCase());
    const format = FORMATS.get(type);
    if (format === undefined || !isKnownVersion(format, parameters)) continue;
    const quality = qualityOf(parameters);
    if (quality <= bestQuality) continue;
    best = format;
    bestQuality = quality;
  }
  return best;
}

const FORMATS: ReadonlyMap<string, Format> = new Map([
  ["application/openmetrics-text", "openmetrics"],
  ["text/plain", "text"],
]);

/** Prometheus asks for the OpenMetrics that it knows, best first; 0.0.1 is what 1.0.0 was before its release. */
function isKnownVersion(format: Format, parameters: readonly string[]): boolean {
  if (format === "text") return true;
  const version = parameters.find((each) => each.startsWith("version="))?.slice(8) ?? "1.0.0";
  return version === "1.0.0" || version === "0.0.1";
}

/** RFC 9110 section 12.4.2; what cannot be read counts as not wanted. */
function qualityOf(parameters: readonly string[]): number {
  const given = parameters.find((each) => each.startsWith("q="))?.slice(2);
  if (given === undefined) return 1;
  return /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(given) ? Number(given) : 0;
}

export function expose(families: readonly Family[], format: Format = "text"): string {
  let text = "";
  for (const family of families) text += exposeFamily(family, format);
  return format === "openmetrics" ? `${text}# EOF\n` : text;
}

function exposeFamily(family: Family, format: Format): string {
  const { name, help, type } = family;
  // OpenMetrics calls a counter by its name without `_total`.
  const isShort = format === "openmetrics" && type === "counter";
  const title = isShort ? name.replace(/_total$/, "") : name;
  const said = help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
  const head = `# HELP ${title} ${said}\n# TYPE ${title} ${type}\n`;
  return type === "histogram" ? head + histogramLines(family, format) : head + lines(family);
}

function lines({ name, rows }: Family): string {
  let text = "";
  for (const { labels, values } of rows) {
    const value = numeral(values[0] ?? 0);
    text += labels === "" ? `${name} ${value}\n` : `${name}{${labels}} ${value}\n`;
  }
  return text;
}

function histogramLines({ name, bounds = [], rows }: Family, format: Format): string {
  const limits = [...bounds.map((bound) => limitText(bound)), "+Inf"];
  const closings = limits.map((limit) => `le="${limit}"} `);
  let text = "";
  for (const { labels, values, exemplars } of rows) {
    const isBare = labels === "";
    const opening = isBare ? `${name}_bucket{` : `${name}_bucket{${labels},`;
    const shown = format === "openmetrics" ? exemplars : undefined;
    let total = 0;
    for (const [index, closing] of closings.entries()) {
      total += values[index] ?? 0;
      const exemplar = shown?.[index];
      text += opening + closing + total + (exemplar === undefined ? "\n" : tail(exemplar));
    }
    const set = isBare ? "" : `{${labels}}`;
    text += `${name}_sum${set} ${numeral(values.at(-1) ?? 0)}\n${name}_count${set} ${total}\n`;
  }
  return text;
}

function tail({ labels, value }: Exemplar): string {
  return ` # {${labels}} ${numeral(value)}\n`;
}

/** As OpenMetrics writes a limit, also in the text format: one spelling is one time series. */
function limitText(bound: number): string {
  return Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

function numeral(value: number): string {
  if (Number.isFinite(value)) return String(value);
  if (Number.isNaN(value)) return "NaN";
  return value > 0 ? "+Inf" : "-Inf";
}

/** A label set as {@link SampleRow.labels}. */
export function labelText(labels: Readonly<Record<string, string | number | undefined>>): string {
  const parts = Object.entries(labels).filter(([, value]) => value !== undefined);
  return parts.map(([name, value]) => `${name}="${escape(String(value))}"`).join(",");
}

function escape(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
