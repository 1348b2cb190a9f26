/** About what is charged by use, and what makes it small (H28). */
import type { Mutant } from "./mutant.ts";

const USAGE = "src/metering/usage.ts";
const METER = "src/metering/meter.ts";
const JSON_PATH = "src/metering/json-path.ts";
const EVENTS = "src/metering/events.ts";
const ANSWER = "src/metering/answer-meter.ts";
const METERED = "src/gateway/metered-answer.ts";
const DELIVERY = "src/gateway/delivery.ts";
const FORWARDING = "src/gateway/upstream/forwarding.ts";
const STORED = "src/ledger/metered.ts";

const ANSWER_TEST = "test/unit/metering/answer-meter.test.ts";
const METER_TEST = "test/unit/metering/meter.test.ts";
const LEDGER_TEST = "test/unit/ledger/memory-ledger.test.ts";
const SALE_TEST = "test/integration/metered.test.ts";
const EVASION_TEST = "test/integration/metered-evasion.test.ts";

export const METER_MUTANTS: readonly Mutant[] = [
  caughtBy(METER_TEST, "rounds what was used down", {
    file: METER,
    find: "(product + unit - 1n) / unit",
    put: "product / unit",
  }),
  caughtBy(METER_TEST, "reads numbers as far as they go", {
    file: USAGE,
    find: "if (text.length > MAX_NUMBER_LENGTH) return undefined;",
    put: "",
  }),
  caughtBy(METER_TEST, "multiplies by whatever exponent stands there", {
    file: USAGE,
    find: "if (exponent > MAX_EXPONENT) return undefined;",
    put: "",
  }),
  caughtBy(ANSWER_TEST, "reads the last of two members of one name", {
    file: JSON_PATH,
    find: "if (this.#seen[outer] === true) this.#isTwice = true;",
    put: "",
  }),
  caughtBy(ANSWER_TEST, "takes a member anywhere for one of the path", {
    file: JSON_PATH,
    find: "return depth === this.#path.length && this.#matched === depth;",
    put: "return this.#matched === this.#path.length;",
  }),
  caughtBy(ANSWER_TEST, "follows a text as deep as it nests", {
    file: JSON_PATH,
    find: "if (depth === MAX_DEPTH) {",
    put: "if (depth < 0) {",
  }),
  caughtBy(ANSWER_TEST, "believes a text that is not whole", {
    file: JSON_PATH,
    find: 'if (this.#isBroken || this.#expects !== "end") return unread("malformed");',
    put: "",
  }),
  caughtBy(ANSWER_TEST, "reads events as long as they are", {
    file: EVENTS,
    find: "const isTooLong = this.#dataBytes > MAX_EVENT_BYTES;",
    put: "const isTooLong = false;",
  }),
  caughtBy(ANSWER_TEST, "takes the first event that says something", {
    file: EVENTS,
    find: "} else if (reading !== undefined && hasPath(reading)) this.#found = reading;",
    put: "} else if (reading !== undefined && hasPath(reading) && this.#found === ABSENT) this.#found = reading;",
  }),
  caughtBy(ANSWER_TEST, "reads an answer without an end", {
    file: ANSWER,
    find: "if (this.#bytes <= MAX_READ_BYTES) {",
    put: "if (this.#bytes >= 0) {",
  }),
  caughtBy(ANSWER_TEST, "reads bytes that are compressed", {
    file: ANSWER,
    find: 'this.#reading = unread("encoded");',
    put: "this.#reading = ABSENT;",
  }),
  caughtBy(ANSWER_TEST, "takes the first of two headers", {
    file: ANSWER,
    find: 'if (others.length > 0) return unread("twice");',
    put: "",
  }),
  caughtBy(SALE_TEST, "gives away what does not say what it has used", {
    file: METERED,
    find: 'if (reading.kind === "unread") return { charged: amount, usage: null, reason: reading.reason };',
    put: 'if (reading.kind === "unread") return { charged: 0n, usage: null, reason: reading.reason };',
  }),
  caughtBy(SALE_TEST, "lets the backend compress what is to be read", {
    file: METERED,
    find: 'readsBody ? ["Accept-Encoding", "identity"] : [];',
    put: "readsBody ? [] : [];",
  }),
  caughtBy(SALE_TEST, "charges for what the backend breaks off when its buyer has left", {
    file: DELIVERY,
    find: "!metered.isBroken",
    put: "true",
  }),
  caughtBy(SALE_TEST, "forgets an answer as its buyer leaves", {
    file: FORWARDING,
    find: "return kept !== null || this.#exchange.tap?.isOpen === true;",
    put: "return kept !== null;",
  }),
  caughtBy(EVASION_TEST, "charges nothing where another target was tried first", {
    file: METERED,
    find: "    this.#isBroken = false;",
    put: "",
  }),
  caughtBy(
    EVASION_TEST,
    "takes a request that its buyer breaks off for an answer that its backend does",
    {
      file: FORWARDING,
      find: "if (isTooLarge(error) && (",
      put: "if (!isTooLarge(error) && isTooLarge(error) && (",
    },
  ),
  caughtBy(EVASION_TEST, "does not tell in a refusal that is sold what it has used", {
    file: FORWARDING,
    find: 'if (told !== undefined && state.is !== "passing")',
    put: 'if (told !== undefined && state.is === "beginning")',
  }),
  caughtBy(LEDGER_TEST, "charges more than was paid, and owes the rest", {
    file: STORED,
    find: "const charged = isCharged && sale.charged < paid ? sale.charged : paid;",
    put: "const charged = isCharged ? sale.charged : paid;",
  }),
  caughtBy(LEDGER_TEST, "stores what was used, and keeps the rest", {
    file: STORED,
    find: "const filled = change > 0n && pot !== undefined &&",
    put: "const filled = change < 0n && pot !== undefined &&",
  }),
  caughtBy(LEDGER_TEST, "says nothing of a payment whose route is not charged by use any more", {
    file: STORED,
    find: "if (pot === undefined && (sale ?? UNMETERED).reason === NOT_METERED) return {};",
    put: "if ((sale ?? UNMETERED).reason === NOT_METERED) return {};",
  }),
  caughtBy(
    "test/integration/metered.test.ts",
    "keeps the rest of what was asked for as the most, behind a reload",
    {
      file: DELIVERY,
      find: " || wasMetered(decision, paid),",
      put: " && !wasMetered(decision, paid),",
    },
  ),
  caughtBy(
    "test/integration/metered.test.ts",
    "charges the most that was asked for what costs less by now",
    {
      file: "src/gateway/metered-sale.ts",
      find: "if (metered === undefined) return unmeteredUse(decision, paid);",
      put: "if (metered === undefined) return undefined;",
    },
  ),
  caughtBy(LEDGER_TEST, "tells a rest of what was paid at one price", {
    file: STORED,
    find: "(sale ?? UNMETERED).reason === NOT_METERED",
    put: "sale === undefined",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H28", unit, ...edit };
}
