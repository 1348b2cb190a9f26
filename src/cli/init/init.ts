/**
 * `coinslot init [FILE]`: a first configuration from questions or options. It is judged before it is written, so
 * what is written runs; nothing is overwritten unless told to.
 */
import { readFileSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { freshKey, type FreshKey } from "../../buyer/buyer-key.ts";
import { formatProblems, parseConfig, printable } from "../../config/config.ts";
import { processEnvironment } from "../../config/reading/environment.ts";
import { jsonSchemaText } from "../../config/reading/json-schema.ts";
import { MAX_DESCRIPTION_LENGTH } from "../../openapi/description.ts";
import { importOpenApi, type Imported, type ImportedRoute } from "../../openapi/openapi.ts";
import { networkOf } from "../../x402/network.ts";
import { err, ok, type Result, messageOf } from "../../x402/result.ts";
import { decidePlan, type InitAnswers } from "./init-plan.ts";
import { configText, KEY_FILES, SCHEMA_FILE, type Plan } from "./init-text.ts";
import { writeKey } from "../keygen.ts";
import { toJson } from "../payments/payment-text.ts";
import { fail, paint, print, say, wantsColor } from "../terminal.ts";

export interface InitOptions extends InitAnswers {
  readonly from?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

const WHY_UNSOLD: Readonly<Record<string, string>> = {
  health: "free, since it tells whether the backend is well",
  internal: "denied, since it is the operator's",
  members: "denied, since it wants a credential",
};
/** Longest description, bytes, and how long a server may take to send it, milliseconds. */
const MAX_BYTES = 4 * MAX_DESCRIPTION_LENGTH;
const FETCH_MS = 30_000;
/** Operations that are listed as not imported, or not sold. */
const MAX_LISTED = 100;
const USAGE = 2;

/** Resolves with the exit code. */
export async function init(file: string, options: InitOptions): Promise<number> {
  try {
    return await write(file, options);
  } catch (cause) {
    return fail("init", `${messageOf(cause)}; nothing was written`);
  }
}

async function write(file: string, options: InitOptions): Promise<number> {
  if (!options.force && (await exists(file))) {
    return fail("init", `${file} exists already; --force overwrites it, another name leaves it`);
  }
  const imported = options.from === undefined ? ok(null) : await readFrom(options.from);
  if (!imported.ok) return fail("init", imported.error);
  const source = imported.value;
  const from = source?.imported ?? null;
  if (from !== null) tellImported(from);
  const decided = await decidePlan(options, from?.server ?? null);
  if (!decided.ok) return fail("init", decided.error, USAGE);
  const routes =
    source === null
      ? null
      : {
          from: describe(source.imported),
          description: source.isNewer ? descriptionFile(file, source) : null,
          list: source.imported.routes,
        };
  const plan = { ...decided.value, routes };
  const written = await writePlan(file, plan, source, options.force === true);
  if (written === undefined) return 1;
  if (options.json) {
    const made = [...written].map(([path, { address }]) => ({ file: path, address }));
    const listed = from?.routes.filter(isSold).map(({ key }) => key) ?? null;
    const unsold = from?.routes.filter((each) => !isSold(each)).map(({ key }) => key) ?? [];
    process.stdout.write(
      toJson({ file, keys: made, routes: listed, unsold, skipped: from?.skipped ?? [] }),
    );
  } else tellNext(file, plan, written);
  return 0;
}

/** The keys that were made; undefined where nothing was written. */
async function writePlan(
  file: string,
  given: Plan,
  source: Source | null,
  isForced: boolean,
): Promise<Keys | undefined> {
  const keys = await missingKeys(file, given);
  // What came from elsewhere is kept beside the configuration, which names it.
  const copy = source !== null && source.file === null ? copyOf(file, source) : null;
  const parse = (plan: Plan): ReturnType<typeof parseConfig> =>
    parseConfig(configText(plan), {
      ...processEnvironment,
      file,
      readFile: (path) => {
        if (source !== null && path === copy) return source.text;
        return keys.get(path)?.text ?? readFileSync(path, "utf8");
      },
    });
  let plan = given;
  let parsed = parse(plan);
  if (!parsed.ok && plan.routes !== null && plan.routes.description !== null) {
    // A description that cannot be published may be sold all the same.
    plan = { ...plan, routes: { ...plan.routes, description: null } };
    parsed = parse(plan);
  }
  const color = wantsColor(process.stderr);
  process.stderr.write(formatProblems(parsed.problems, parsed.text, { color }));
  if (!parsed.ok) {
    fail("init", "the configuration would be refused; nothing was written");
    return undefined;
  }
  const flag = isForced ? "w" : "wx";
  if (source !== null && copy !== null && plan.routes?.description !== null) {
    await writeFile(copy, source.text, { flag });
  }
  for (const [path, key] of keys) await writeKey(path, key.text);
  // For editors. One that is there stays: another version of the program may have written it.
  const schema = join(dirname(resolve(file)), SCHEMA_FILE);
  if (!(await exists(schema))) await writeFile(schema, jsonSchemaText(), { flag: "wx" });
  await writeFile(file, configText(plan), { flag });
  return keys;
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

/** A description that was read. */
interface Source {
  readonly text: string;
  /** Null: it came from elsewhere. */
  readonly file: string | null;
  /** Whether it can be published with prices, as OpenAPI 3 can. */
  readonly isNewer: boolean;
  readonly imported: Imported;
}

async function readFrom(from: string): Promise<Result<Source, string>> {
  const isUrl = /^https?:\/\//i.test(from);
  const read = isUrl ? await fetchText(from) : await readText(from);
  if (!read.ok) return read;
  const imported = importOpenApi(read.value);
  if (!imported.ok) return err(`${from} ${imported.error}`);
  const { routes, skipped, form } = imported.value;
  const isNewer = form.startsWith("OpenAPI 3");
  const source = { text: read.value, file: isUrl ? null : from, isNewer, imported: imported.value };
  if (routes.some(isSold)) return ok(source);
  const reasons = [...new Set(skipped.map(({ reason }) => reason))].slice(0, 3).join("; ");
  const unsold = routes.length > 0 ? "all of them want a credential, or are the operator's" : "";
  return err(`${from} has no operation that could be sold: ${reasons || unsold || "it has none"}`);
}

async function readText(file: string): Promise<Result<string, string>> {
  try {
    const { size } = await stat(file);
    // As many bytes may be as many characters, or less.
    if (size > MAX_BYTES) return err(`${file} is too large`);
    return ok(await readFile(file, "utf8"));
  } catch (cause) {
    return err(`${file} cannot be read: ${messageOf(cause)}; --from takes a file or a URL`);
  }
}

async function fetchText(url: string): Promise<Result<string, string>> {
  try {
    const response = await fetch(url, {
      headers: { Accept: "application/json, application/yaml;q=0.9, */*;q=0.1" },
      signal: AbortSignal.timeout(FETCH_MS),
    });
    if (!response.ok) return err(`${url} answers ${response.status}`);
    const decoder = new TextDecoder();
    let [text, bytes] = ["", 0];
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > MAX_BYTES) return err(`${url} is too large`);
      text += decoder.decode(chunk, { stream: true });
    }
    return ok(text + decoder.decode());
  } catch (cause) {
    return err(`${url} cannot be read: ${messageOf(cause)}`);
  }
}

function copyOf(file: string, { text }: Source): string {
  const isJson = text.trimStart().startsWith("{");
  return join(dirname(resolve(file)), isJson ? "openapi.json" : "openapi.yaml");
}

/** As the configuration names it, which is read from its own folder. */
function descriptionFile(file: string, source: Source): string {
  const path = source.file === null ? copyOf(file, source) : resolve(source.file);
  return `./${relative(dirname(resolve(file)), path)}`;
}

function isSold({ audience }: ImportedRoute): boolean {
  return audience === "buyers";
}

function describe({ title, form }: Imported): string {
  return title === "" ? `an ${form} description` : `${title} (${form})`;
}

function tellImported(imported: Imported): void {
  const { routes, skipped } = imported;
  const unsold = routes.filter((each) => !isSold(each));
  say(printable(`${describe(imported)}: ${routes.length} routes, ${skipped.length} not imported`));
  for (const { key, audience } of unsold.slice(0, MAX_LISTED)) {
    say(`  ${paint("yellow", "not sold")} ${printable(`${key}: ${WHY_UNSOLD[audience] ?? ""}`)}`);
  }
  for (const { operation, reason } of skipped.slice(0, MAX_LISTED)) {
    say(`  ${paint("yellow", "not imported")} ${printable(`${operation}: ${reason}`)}`);
  }
  if (skipped.length > MAX_LISTED) say(`  and ${skipped.length - MAX_LISTED} more`);
}

type Keys = ReadonlyMap<string, FreshKey>;

/** Keys that the file names and that are not there, by their paths. */
async function missingKeys(file: string, plan: Plan): Promise<Keys> {
  const keys = new Map<string, FreshKey>();
  if (plan.facilitator !== "embedded") return keys;
  for (const kind of new Set(plan.networks.map((name) => networkOf(name).kind))) {
    const path = join(dirname(resolve(file)), KEY_FILES[kind]);
    if (!(await exists(path))) keys.set(path, freshKey(kind));
  }
  return keys;
}

function tellNext(file: string, plan: Plan, keys: Keys): void {
  print(`${file} is written`);
  for (const [path, { address }] of keys) {
    const kind = path.endsWith(KEY_FILES.solana) ? "solana" : "evm";
    const networks = plan.networks.filter((name) => networkOf(name).kind === kind);
    const coins = networks.map((name) => `${networkOf(name).nativeCurrency.symbol} on ${name}`);
    const isFree = networks.every((name) => networkOf(name).testnet);
    const where = isFree ? "; faucets of test networks give it away" : "";
    print(`${path} is a new key: send ${address} a little ${coins.join(", ")} for the gas${where}`);
  }
  const first = plan.routes?.list
    .filter(isSold)
    .find(({ key }) => key.startsWith("GET ") && !key.includes(":"));
  const path = first === undefined ? "/" : first.key.slice("GET ".length);
  print("next:");
  print(`  coinslot doctor ${file}       # is everything there that it needs?`);
  print(`  coinslot serve ${file}`);
  print(`  coinslot pay ${plan.publicUrl}${path} --dry-run`);
}
