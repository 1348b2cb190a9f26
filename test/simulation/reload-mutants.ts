/** A reload, and the reading of a file, without one of its refusals; what is in force told otherwise than it is. */
import { caughtBy, type Mutant } from "./mutant.ts";

const GIVING_AWAY = "src/app/giving-away.ts";
const RELOADING = "src/app/reloading.ts";
const SALES = "src/app/sales.ts";
const SOURCE = "src/config/reading/source.ts";

const GIVING_AWAY_TEST = "test/unit/app/giving-away.test.ts";
const RELOADING_TEST = "test/unit/app/reloading.test.ts";
const FRONT_TEST = "test/unit/app/public-side.test.ts";
const SALES_TEST = "test/unit/app/sales.test.ts";
const INCLUDE_TEST = "test/unit/config/include.test.ts";

export const RELOAD_MUTANTS: readonly Mutant[] = [
  caughtBy(GIVING_AWAY_TEST, "puts a file in force by which free is what was sold", {
    file: GIVING_AWAY,
    find: "if (method !== undefined) found.set(route.key, { route, method });",
    put: "",
  }),
  caughtBy(GIVING_AWAY_TEST, "asks the new file by the first method alone", {
    file: GIVING_AWAY,
    find: "(route.methods ?? USUAL_METHODS).find((each) =>",
    put: "(route.methods ?? USUAL_METHODS).slice(0, 1).find((each) =>",
  }),
  caughtBy(GIVING_AWAY_TEST, "asks the file's own site for what any of them sold", {
    file: GIVING_AWAY,
    find: "asked: [...new Set(all)].filter((name) => name !== undefined)",
    put: 'asked: [...new Set(all)].filter((name) => name === "")',
  }),
  caughtBy(GIVING_AWAY_TEST, "compares with the newest of the files in force alone", {
    file: GIVING_AWAY,
    find: "const before = inForce.map((each) => each.config);",
    put: "const before = inForce.slice(0, 1).map((each) => each.config);",
  }),
  caughtBy(GIVING_AWAY_TEST, "takes the beginning of a file for a file", {
    file: GIVING_AWAY,
    find: "return old.slice(last + 1).some((line) => left.has(line)) ? undefined : LINES_GONE;",
    put: "return undefined;",
  }),
  caughtBy(GIVING_AWAY_TEST, "takes a line that is half written", {
    file: GIVING_AWAY,
    find: `if (before.endsWith("\\n") && !after.endsWith("\\n")) return NO_LINE_BREAK;`,
    put: "",
  }),
  caughtBy(GIVING_AWAY_TEST, "looks at no end of an included file", {
    file: GIVING_AWAY,
    find: "return [{ name: config.file, text }, ...included];",
    put: "return [{ name: config.file, text }, ...included].slice(0, 1);",
  }),
  caughtBy(RELOADING_TEST, "puts in force what it has refused", {
    file: RELOADING,
    find: "if (against.length > 0) return refuse(against, told);",
    put: "",
  }),
  caughtBy(RELOADING_TEST, "notes in the ledger what is only tried", {
    file: RELOADING,
    find: "isDry === true || given.length > 0)",
    put: "false)",
  }),
  caughtBy(RELOADING_TEST, "forgets what else is in force where a reload succeeds in part", {
    file: RELOADING,
    find: "this.#inForce = [next, ...before.filter((each) => each.hash !== hash)];",
    put: "this.#inForce = [next];",
  }),
  caughtBy(RELOADING_TEST, "goes on to guard what is in force no more", {
    file: RELOADING,
    find: "      this.#inForce = [next];\n",
    put: "",
  }),
  caughtBy(RELOADING_TEST, "tells a reload in part as a whole one", {
    file: RELOADING,
    find: "return { reloaded: true, inPart: true, ...result,",
    put: "return { reloaded: true, ...result,",
  }),
  caughtBy(RELOADING_TEST, "counts a reload in part as a success", {
    file: RELOADING,
    find: "const isInUse = result.reloaded && result.inPart !== true;",
    put: "const isInUse = result.reloaded;",
  }),
  caughtBy(RELOADING_TEST, "tells the file that was refused as the one in force", {
    file: RELOADING,
    find: "this.#inForce.map(({ hash }) => hash)",
    put: "[result.hash]",
  }),
  caughtBy(RELOADING_TEST, "takes up a file that is not to be watched any more", {
    file: RELOADING,
    find: "if (SEEN.has(cause) && !this.#inForce[0].config.watch) return UNCHANGED;",
    put: "",
  }),
  caughtBy(SALES_TEST, "shows who still goes by a configuration the documents of the next", {
    file: SALES,
    find: "return this.#publications.publish;",
    put: "return (...asked) => this.#publications.publish(...asked);",
  }),
  caughtBy(SALES_TEST, "goes through the routes of all that was replaced at once", {
    file: SALES,
    find: "return this.#earlier.filter(({ untilMs }) => systemTime.now() < untilMs);",
    put: `return this.#earlier.filter(
      ({ config, replacedMs }) => systemTime.now() < replacedMs + longestQuoteMs(config.routes),
    );`,
  }),
  caughtBy(FRONT_TEST, "keeps the documents of the first configuration", {
    file: "src/app/public-side.ts",
    find: "this.#options = lasting;",
    put: "this.#options = options;",
  }),
  caughtBy(FRONT_TEST, "keeps the routes of the first configuration", {
    file: "src/gateway/work.ts",
    find: "this.#lasting = { paywall, drafts, telemetry };",
    put: "this.#lasting = { ...options, drafts };",
  }),
  caughtBy("test/unit/app/read-accounts.test.ts", "believes what another version reads", {
    file: "src/app/own-thread.ts",
    find: "if (said.version !== version) {",
    put: `if (said.version === "") {`,
  }),
  caughtBy(SALES_TEST, "takes what workers still ask for as long as if none had", {
    file: SALES,
    find: "this.#earlier = [{ ...last, replacedMs: nowMs, untilMs }, ...others];",
    put: "",
  }),
  caughtBy(
    "test/unit/gateway/offers/earlier-quotes.test.ts",
    "takes what was replaced long before",
    {
      file: "src/gateway/offers/earlier-quotes.ts",
      find: "if (each.replacedMs !== replacedMs) continue;",
      put: "",
    },
  ),
  caughtBy(FRONT_TEST, "opens backends for what is closed", {
    file: "src/app/public-side.ts",
    find: "if (this.#isClosed) return Promise.resolve();",
    put: "",
  }),
  caughtBy(FRONT_TEST, "closes without what is being put in force", {
    file: "src/app/public-side.ts",
    find: "await this.#configuring.catch(() => undefined);",
    put: "",
  }),
  caughtBy("test/unit/webhooks/webhooks.test.ts", "tells receivers once it is stopped", {
    file: "src/webhooks/webhooks.ts",
    find: "this.#stopping.signal.aborted ? [] : settings.map(",
    put: "settings.map(",
  }),
  caughtBy("test/unit/app/read-accounts.test.ts", "waits for a thread that never answers", {
    file: "src/app/own-thread.ts",
    find: "const signal = AbortSignal.timeout(this.#withinMs);",
    put: "const signal = AbortSignal.timeout(this.#withinMs * 10_000);",
  }),
  caughtBy("test/unit/app/start-order.test.ts", "packs what a worker is told all at once", {
    file: "src/app/start-order.ts",
    find: "      parts.push(serialize(pack(value.slice(at, at + PART))));\n      yield;",
    put: "      parts.push(serialize(pack(value.slice(at, at + PART))));",
  }),
  caughtBy("test/unit/app/reloading.test.ts", "keeps every file that is in force in part", {
    file: "src/app/reloading.ts",
    find: "before.length > MAX_IN_PART &&",
    put: "before.length > 1_000 &&",
  }),
  caughtBy("test/unit/config/payers.test.ts", "takes an emptied list of payers for one of nobody", {
    file: "src/config/payers.ts",
    find: `if (text.trim() === "") {`,
    put: `if (text === "\\0") {`,
  }),
  caughtBy(INCLUDE_TEST, "takes an emptied file for one that says nothing", {
    file: SOURCE,
    find: `if (part.trim() === "") {`,
    put: `if (part === "\\0") {`,
  }),
  caughtBy(INCLUDE_TEST, "leaves out a file that it cannot include", {
    file: SOURCE,
    find: "faults.push({ index, fault: UNREADABLE });",
    put: "",
  }),
  caughtBy(INCLUDE_TEST, "knows a file by its own text alone", {
    file: "src/config/config.ts",
    find: `createHash("sha256").update(source.text)`,
    put: `createHash("sha256").update(text)`,
  }),
  caughtBy("test/unit/config/mistakes.test.ts", "looks at the first route alone that hosts share", {
    file: "src/config/routes/free-holes.ts",
    find: "const free = routes.find(",
    put: "const free = routes.slice(0, 1).find(",
  }),
];
