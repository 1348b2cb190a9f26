/**
 * `coinslot init [FILE]`: a first configuration from questions or options. It is judged before it is written, so
 * what is written runs; nothing is overwritten unless told to.
 */
import { readFileSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { freshKey, type FreshKey } from "../../buyer/buyer-key.ts";
import { formatProblems, parseConfig, printable } from "../../config/config.ts";
import { processEnvironment } from "../../config/reading/environment.ts";
import { jsonSchemaText } from "../../config/reading/json-schema.ts";
import { MAX_DESCRIPTION_LENGTH } from "../../openapi/description.ts";
import { importOpenApi, type Imported } from "../../openapi/openapi.ts";
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

/** Operations that are listed as not imported. */
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
  const from = imported.value;
  if (from !== null) tellImported(from);
  const decided = await decidePlan(options, from?.server ?? null);
  if (!decided.ok) return fail("init", decided.error, USAGE);
  const routes = from === null ? null : { from: describe(from), list: from.routes };
  const plan = { ...decided.value, routes };
  const written = await writePlan(file, plan, options.force === true);
  if (written === undefined) return 1;
  if (options.json) {
    const made = [...written].map(([path, { address }]) => ({ file: path, address }));
    const listed = from?.routes.map(({ key }) => key) ?? null;
    process.stdout.write(
      toJson({ file, keys: made, routes: listed, skipped: from?.skipped ?? [] }),
    );
  } else tellNext(file, plan, written);
  return 0;
}

/** The keys that were made; undefined where nothing was written. */
async function writePlan(file: string, plan: Plan, isForced: boolean): Promise<Keys | undefined> {
  const text = configText(plan);
  const keys = await missingKeys(file, plan);
  const parsed = parseConfig(text, {
    ...processEnvironment,
    file,
    readFile: (path) => keys.get(path)?.text ?? readFileSync(path, "utf8"),
  });
  const color = wantsColor(process.stderr);
  process.stderr.write(formatProblems(parsed.problems, parsed.text, { color }));
  if (!parsed.ok) {
    fail("init", "the configuration would be refused; nothing was written");
    return undefined;
  }
  for (const [path, key] of keys) await writeKey(path, key.text);
  // For editors. One that is there stays: another version of the program may have written it.
  const schema = join(dirname(resolve(file)), SCHEMA_FILE);
  if (!(await exists(schema))) await writeFile(schema, jsonSchemaText(), { flag: "wx" });
  await writeFile(file, text, { flag: isForced ? "w" : "wx" });
  return keys;
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

async function readFrom(file: string): Promise<Result<Imported, string>> {
  let text: string;
  try {
    const { size } = await stat(file);
    // As many bytes may be as many characters, or less.
    if (size > 4 * MAX_DESCRIPTION_LENGTH) return err(`${file} is too large`);
    text = await readFile(file, "utf8");
  } catch (cause) {
    return err(`${file} cannot be read: ${messageOf(cause)}; --from takes a local file`);
  }
  const imported = importOpenApi(text);
  if (!imported.ok) return err(`${file} ${imported.error}`);
  const { routes, skipped } = imported.value;
  if (routes.length > 0) return imported;
  const reasons = [...new Set(skipped.map(({ reason }) => reason))].slice(0, 3).join("; ");
  return err(`${file} has no operation that could be a route: ${reasons || "it has none"}`);
}

function describe({ title, form }: Imported): string {
  return title === "" ? `an ${form} description` : `${title} (${form})`;
}

function tellImported(imported: Imported): void {
  const { routes, skipped } = imported;
  say(printable(`${describe(imported)}: ${routes.length} routes, ${skipped.length} not imported`));
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
  const first = plan.routes?.list.find(({ key }) => key.startsWith("GET ") && !key.includes(":"));
  const path = first === undefined ? "/" : first.key.slice("GET ".length);
  print("next:");
  print(`  coinslot doctor ${file}       # is everything there that it needs?`);
  print(`  coinslot serve ${file}`);
  print(`  coinslot pay ${plan.publicUrl}${path} --dry-run`);
}
