/** About work that is done before it is paid, goods that are not paid, and what is paid without goods (H23). */
import type { Edit } from "../support/mutated-copy.ts";
import type { Mutant } from "./mutant.ts";

const HELD = "src/gateway/held-response.ts";
const WORK = "src/gateway/held-work.ts";
const FIRST = "src/payments/sale/work-first.ts";
const POT = "src/payments/sale/unpaid-work.ts";
const PAYWALL = "src/payments/sale/paywall.ts";
const SETTLEMENT = "src/payments/sale/sale-settlement.ts";
const ROUTES = "src/config/routes/routes.ts";

const GOODS_TEST = "test/integration/settle-after.test.ts";
const SHOP_TEST = "test/integration/gateway/settle-after-shop.test.ts";
const KILL_TEST = "test/integration/settle-after-kill.test.ts";
const FIRST_TEST = "test/unit/payments/sale/work-first.test.ts";
const HELD_TEST = "test/unit/gateway/held-response.test.ts";
const GOLDEN_TEST = "test/unit/config/golden.test.ts";

const LEFT_AT_THE_END =
  "    // Nobody is charged who has left.\n    if (presented.isGone()) return drop(ABANDONED);\n";

export const WORK_MUTANTS: readonly Mutant[] = [
  caughtBy(GOODS_TEST, "gives goods before they are paid", {
    file: WORK,
    find: "    if (isGoods) {",
    put: "    if (isGoods && wanted.payer === '') {",
  }),
  caughtBy(GOODS_TEST, "charges for what is no goods", {
    file: WORK,
    find: "isWhole && answered.isGoods(delivery.status) && !answered.leadsOn(delivery.status);",
    put: "isWhole;",
  }),
  caughtBy(GOODS_TEST, "charges for a head, or for being led on", {
    file: WORK,
    find: " && !answered.leadsOn(delivery.status);",
    put: ";",
  }),
  caughtBy(GOODS_TEST, "asks its backend for a connection that nobody pays for", {
    file: "src/gateway/unfit.ts",
    find: "if (plan.isSettledAfter && replaying === null) return UNHOLDABLE;",
    put: "",
  }),
  caughtBy(SHOP_TEST, "lets the backend work on for who has left", {
    file: "src/gateway/visitor.ts",
    find: `else client.on("close", () => into.destroy());`,
    put: "",
  }),
  caughtBy(
    FIRST_TEST,
    "charges who has left while it worked",
    {
      file: FIRST,
      find: "      if (presented.isGone()) return drop(ABANDONED);\n      course.isWorked = true;",
      put: "      course.isWorked = true;",
    },
    { file: FIRST, find: LEFT_AT_THE_END, put: "" },
  ),
  caughtBy(FIRST_TEST, "keeps the claim of who has left while it works", {
    file: PAYWALL,
    find: "() => void leave(course.isUncharged ? terms.idempotencyKey : undefined),",
    put: "() => void leave(),",
  }),
  caughtBy(FIRST_TEST, "leaves a claim to be charged for work that nobody has done", {
    file: PAYWALL,
    find: "const known = course.isUncharged ? terms.idempotencyKey : undefined;",
    put: "const known = undefined;",
  }),
  caughtBy(FIRST_TEST, "charges for a claim that is not its own any more", {
    file: FIRST,
    find: "if (!(await this.#payments.step(key, answered))) return IN_FLIGHT;",
    put: "await this.#payments.step(key, answered);",
  }),
  caughtBy(FIRST_TEST, "works for whoever is denied, or has no money", {
    file: FIRST,
    find: 'if (vetted !== "good") return vetted;',
    put: 'if (vetted !== "good" && vetted.kind === "unknown") return vetted;',
  }),
  caughtBy(FIRST_TEST, "works again for what is kept", {
    file: FIRST,
    find: "if (kept?.bodyHash === undefined) return undefined;",
    put: "if (kept?.bodyHash !== '') return undefined;",
  }),
  caughtBy(KILL_TEST, "gives what another body was answered", {
    file: FIRST,
    find: "=== kept.bodyHash ? kept : undefined;",
    put: "!== '' ? kept : undefined;",
  }),
  caughtBy(FIRST_TEST, "lets a payer have any work for nothing", {
    file: POT,
    find: "if (seconds > 0) return seconds;",
    put: "if (seconds < 0) return seconds;",
  }),
  caughtBy(FIRST_TEST, "forgets what a payer has spoilt", {
    file: POT,
    find: 'if (how === "spoilt") works.spoilt += 1;',
    put: "",
  }),
  caughtBy(FIRST_TEST, "counts against a payer what he has paid", {
    file: POT,
    find: 'if (how === "spoilt") works.spoilt += 1;',
    put: 'if (how !== "ours") works.spoilt += 1;',
  }),
  caughtBy(FIRST_TEST, "takes what is under way for done when a while has passed", {
    file: POT,
    find: "const works = { underWay, spoilt: left, atMs: nowMs };",
    put: "const works = { underWay: underWay - (nowMs - atMs) / UNPAID_WORK_MS, spoilt: left, atMs: nowMs };",
  }),
  caughtBy(FIRST_TEST, "lets one purse pay for many works", {
    file: POT,
    find: "draw === undefined ? () => undefined : await this.#purses.take(draw, signal);",
    put: "await (async () => (): void => void draw)();",
  }),
  caughtBy(FIRST_TEST, "takes a settlement that is refused for none of the payer's", {
    file: SETTLEMENT,
    find: 'how = "spoilt";',
    put: 'how = "ours";',
  }),
  caughtBy(HELD_TEST, "holds what never ends", {
    file: HELD,
    find: 'if (areEvents(lines) && !this.#holdsEvents) this.#breakOff("stream");\n    else if',
    put: "if",
  }),
  caughtBy(HELD_TEST, "holds an answer of any size", {
    file: HELD,
    find: "if (this.#body.length + part.length > MAX_HELD_BYTES) return",
    put: "if (part.length > MAX_HELD_BYTES) return",
  }),
  caughtBy(HELD_TEST, "holds as many as there are", {
    file: HELD,
    find: "if (this.#taken + bytes > MAX_HELD_BYTES_OF_ALL) return false;",
    put: "",
  }),
  caughtBy(GOLDEN_TEST, "takes a stream, or a sidecar, for what can be held", {
    file: ROUTES,
    find: 'if (block.settle === "after") refuseUnheld(block, [...path, "settle"], context);',
    put: "",
  }),
];

function caughtBy(
  unit: string,
  name: string,
  edit: Pick<Mutant, "file" | "find" | "put">,
  also?: Edit,
): Mutant {
  return { name, cites: "H23", unit, ...edit, ...(also && { also }) };
}
