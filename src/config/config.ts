/**
 * The configuration language: YAML text becomes a complete frozen {@link Config}, or every problem of
 * the file at once, each with its place.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { dirname, resolve as resolvePath } from "node:path";
import { Context } from "./reading/context.ts";
import { processEnvironment, type Environment } from "./reading/environment.ts";
import { LineIndex } from "./reading/line-index.ts";
import { maskSecrets } from "./reading/mask.ts";
import { Problems, type Fault, type Part, type Problem } from "./reading/problem.ts";
import { readSource, type Source } from "./reading/source.ts";
import { resolve } from "./resolve.ts";
import { review } from "./review.ts";
import type { Path, Span, Tree } from "./reading/tree.ts";
import { validate } from "./reading/validation.ts";
import type { Config } from "./document.ts";
import { isText, readYaml } from "./reading/yaml-document.ts";

export { countsOf, formatProblems } from "./reading/format.ts";
export { printable } from "../x402/printable.ts";
export { processEnvironment } from "./reading/environment.ts";
export type { Environment } from "./reading/environment.ts";
export type { Problem } from "./reading/problem.ts";
export { changesBetween, priceOf, shadowPriceOf, type ConfigChange } from "./differences.ts";
export type { Config } from "./document.ts";
export { siteNames, sitesOf, siteTable, type Site } from "./hosts.ts";
export { routePath } from "./routes/route-path.ts";
export type { EmbeddedNetwork } from "./facilitator/embedded.ts";
export type { CallingGateway, CatalogueSettings } from "./facilitator/hub.ts";
export type { ObservedNetwork, RemoteFacilitatorSettings } from "./facilitator/remote.ts";
export type { CertificateFile, ListenerTls } from "./listener/certificates.ts";
export type { AdminSettings, ListenAddress } from "./listener/listeners.ts";
export { PROXY_UPSTREAM } from "./listener/sidecar.ts";
export { isEntrance, isShadowed, PUBLISHED_PATHS, VERSION_2_PATHS } from "./routes/discovery.ts";
export { NEEDS_RESTART } from "./restart-keys.ts";
export { toldMeter } from "./routes/meter.ts";
export type { MemberPrice } from "./routes/member-prices.ts";
export type { OfferSettings } from "./routes/pricing.ts";
export type { OwnGoods, PassGoods } from "./routes/own-goods.ts";
export { soldNetworks } from "./routes/sold-networks.ts";
export { holdersText, passesOf, toldPasses, waysFacts, waysText, type PassGround } from "./ways.ts";
export type { PricedAction, RouteAction, RouteSettings } from "./routes/routes.ts";
export type { ToolTerms as ToolSettings } from "./routes/tools.ts";
export type { Upstream } from "./upstream/upstream.ts";

/** So many tell two files apart. */
const HASH_DIGITS = 16;
/** Keys of which what a buyer is asked does not depend. */
const UNSAID: ReadonlySet<string> = new Set(["store", "facilitator"]);

/**
 * `problems` of an accepted file are warnings and notes only; those of a refused one have an error, or else it was read
 * {@link Environment.withoutSecrets}, and there is no whole configuration.
 * `text` is the text of the file with its secrets masked, for `formatProblems` to quote.
 */
export type ParseResult = Found &
  ({ readonly ok: true; readonly config: Config } | { readonly ok: false });

interface Found {
  readonly problems: readonly Problem[];
  readonly text: string;
  /** The files that it includes, as messages name them, with their texts, masked. */
  readonly included: readonly { readonly name: string; readonly text: string }[];
  /** The beginning of the SHA-256 of the file as it is, with what it includes behind it, in hex: `cat FILES | sha256sum`. */
  readonly hash: string;
}

/** A warning or a note about a file that is accepted, see {@link ConfigReading}. */
export interface Remark {
  readonly severity: Exclude<Problem["severity"], "error">;
  readonly path: Path;
  readonly part: Part;
  readonly fault: Fault;
}

export interface ConfigReading extends Environment {
  /** What else there is to say of an accepted file; default: nothing. */
  readonly review?: (config: Config) => readonly Remark[];
}

export interface ParseOptions extends ConfigReading {
  /** The name of the file, for messages; paths in it are relative to its folder. */
  readonly file: string;
}

/** Never throws, whatever the text; reads the files to which the text refers, and nothing else. */
export function parseConfig(text: string, options: ParseOptions): ParseResult {
  const { file } = options;
  const source = readSource(text, file, options);
  const hash = createHash("sha256").update(source.text).digest("hex").slice(0, HASH_DIGITS);
  const lines = new LineIndex(source);
  const { tree, syntaxFaults, unsound, faults } = readYaml(source, lines, options);
  const problems = new Problems(lines, tree);
  for (const { span, fault } of syntaxFaults) problems.addAt("error", span, fault);
  problems.leaveOut(unsound);
  for (const { span, fault } of faults) {
    if (!problems.isLeftOut(span)) problems.addAt("error", span, fault);
  }
  for (const { index, fault } of source.faults) problems.error(placeIn(tree, index), fault);
  const document = validate(tree, problems);
  const found = (): Found => ({ ...quotable(source, { tree, unsound, problems }), hash });
  if (document === undefined) return { ok: false, ...found() };

  const folder = dirname(resolvePath(file));
  const context = new Context({ tree, problems, environment: options, folder, text: source.text });
  const config = resolve({ file, included: source.included }, document, context);
  if (unsound.length === 0) review(config, document, context);
  if (problems.refused) return { ok: false, ...found() };
  deepFreeze(config);
  // Who is paid how much for what is known without the secrets of the ledger and of who settles.
  const isKnown = tree.keys([]).every((key) => UNSAID.has(key) || tree.intact([key]));
  for (const { severity, path, fault, part } of (isKnown && options.review?.(config)) || []) {
    problems.add(severity, path, fault, part);
  }
  const isWhole = tree.intact([]) && !context.isPartial;
  return isWhole ? { ok: true, config, ...found() } : { ok: false, ...found() };
}

/** An entry of `include`, which may be a list or a name alone. */
function placeIn(tree: Tree, index: number): Path {
  return tree.find(["include"])?.kind === "sequence" ? ["include", index] : ["include"];
}

interface Judged {
  readonly tree: Tree;
  readonly unsound: readonly Span[];
  readonly problems: Problems;
}

/** The texts of the files with their secrets masked, and the problems with what they quote of those that are included. */
function quotable(
  { text, files }: Source,
  { tree, unsound, problems }: Judged,
): Omit<Found, "hash"> {
  const masked = isText(text)
    ? maskSecrets(text, tree, [...unsound, ...problems.obscure])
    : text.replace(/[^\n]/g, " ");
  const [own, ...included] = files.map(({ name, offset, length }) => {
    return { name, text: masked.slice(offset, offset + length) };
  });
  const lines = new Map(included.map((each) => [each.name, each.text.split(/\r?\n/)]));
  const list = problems.list().map((problem) => {
    const source = lines.get(problem.file)?.[problem.line - 1];
    return source === undefined ? problem : { ...problem, source };
  });
  return { problems: list, text: own?.text ?? "", included };
}

/** Reads and parses a file; one that cannot be read is a problem like any other. */
export async function loadConfig(
  path: string,
  environment: ConfigReading = processEnvironment,
): Promise<ParseResult> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    return { ok: false, problems: [unreadable(path, error)], text: "", included: [], hash: "" };
  }
  return parseConfig(text, { ...environment, file: path });
}

function unreadable(file: string, error: unknown): Problem {
  const reason = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
  return {
    severity: "error",
    code: "unreadable-file",
    message: `the file cannot be read${reason}`,
    file,
    line: 0,
    column: 0,
    length: 1,
    path: [],
  };
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  Object.values(value).forEach(deepFreeze);
  return value;
}
