/** About what is had for nothing and counted: more of it than there is, or somebody else's (H25). */
import type { Mutant } from "./mutant.ts";

const COUNTED = "src/gateway/counted.ts";
const DOOR = "src/gateway/quota-door.ts";
const RECOGNITION = "src/payments/sale/recognition.ts";
const PASSING = "src/gateway/passing.ts";

const POTS = "src/ledger/pots.ts";
const COUNTED_TEST = "test/unit/gateway/counted.test.ts";
const DOOR_TEST = "test/unit/gateway/quota-door.test.ts";
const SHOP_TEST = "test/integration/counted.test.ts";
const MEMBER_TEST = "test/unit/payments/sale/membership.test.ts";
const REDIRECTED_TEST = "test/integration/redirected-ways.test.ts";
const TOOLS_TEST = "test/integration/mcp/sold-ways.test.ts";
const PASS_TEST = "test/integration/passes.test.ts";
const HOST_TEST = "test/integration/host-passes.test.ts";
const GOLDEN_TEST = "test/unit/config/golden.test.ts";

export const COUNTED_MUTANTS: readonly Mutant[] = [
  caughtBy(DOOR_TEST, "lets as many strangers open something as come", {
    file: DOOR,
    find: "if (strangers.size >= most || ",
    put: "if (",
  }),
  caughtBy(DOOR_TEST, "lets one neighbourhood have all that is free", {
    file: DOOR,
    find: " || ofThem >= MAX_OF_NEIGHBOURS[by]) return",
    put: ") return",
  }),
  caughtBy(DOOR_TEST, "lets as many strangers in each second as in a day", {
    file: DOOR,
    find: "Math.ceil(MAX_STRANGERS * Math.min(1, windowMs / WHOLE_WINDOW_MS));",
    put: "Math.ceil(MAX_STRANGERS * Math.min(1, windowMs));",
  }),
  caughtBy(DOOR_TEST, "remembers strangers of windows that are over", {
    file: DOOR,
    find: "if (isSame && known.untilMs >= untilMs) return known;",
    put: "if (isSame) return known;",
  }),
  caughtBy(
    DOOR_TEST,
    "counts the strangers of a day against each minute, where the file has changed",
    {
      file: DOOR,
      find: "const isSame = known?.by === by && known.windowMs === windowMs;",
      put: "const isSame = known !== undefined;",
    },
  ),
  caughtBy(DOOR_TEST, "asks the ledger again and again for who has nothing left", {
    file: DOOR,
    find: 'return nowMs < nothingUntilMs ? "empty" : "in";',
    put: 'return nowMs < 0 ? "empty" : "in";',
  }),
  caughtBy(COUNTED_TEST, "gives each address of one IPv6 network its own", {
    file: COUNTED,
    find: "return { who: from, neighbourhood: neighbourhoodOf(address) };",
    put: "return { who: address, neighbourhood: neighbourhoodOf(address) };",
  }),
  caughtBy(COUNTED_TEST, "gives an account some in each spelling", {
    file: POTS,
    find: "const name = isEvmAddress(address) ? address.toLowerCase() : address;\n  return `${hasKey",
    put: "const name = isEvmAddress(address) ? address : address.trim();\n  return `${hasKey",
  }),
  caughtBy(COUNTED_TEST, "gives an account some on each chain", {
    file: POTS,
    find: "`${hasKey ? networkOf(network).kind : network}:${name}`",
    put: "`${network}:${name}`",
  }),
  caughtBy(COUNTED_TEST, "takes code for the key of the same address", {
    file: POTS,
    find: "`${hasKey ? networkOf(network).kind : network}:${name}`",
    put: "`${hasKey || name !== address ? networkOf(network).kind : network}:${name}`",
  }),
  caughtBy(COUNTED_TEST, "gives the same again in the same window", {
    file: COUNTED,
    find: "const untilMs = (Math.floor(nowMs / windowMs) + 1) * windowMs;",
    put: "const untilMs = nowMs + windowMs;",
  }),
  caughtBy(COUNTED_TEST, "counts what is no goods", {
    file: COUNTED,
    find: "return (status < BAD_REQUEST || plan.goods.has(status)) && ",
    put: "return plan.goods.size >= 0 && ",
  }),
  caughtBy(COUNTED_TEST, "counts nothing of what its client has left", {
    file: COUNTED,
    find: "delivery.sent && !(isPaid && isHarmless(soldMethod));",
    put: "delivery.sent && isPaid && !isHarmless(soldMethod);",
  }),
  caughtBy(COUNTED_TEST, "takes a use of what was paid for a head alone", {
    file: COUNTED,
    find: " && !(isPaid && isLook);",
    put: " && !(isPaid && isLook && status > 600);",
  }),
  caughtBy(COUNTED_TEST, "says that there is none where nobody could be asked", {
    file: COUNTED,
    find: 'if (!(share instanceof PotShare)) return { kind: "unavailable", lines: [] };',
    put: 'if (!(share instanceof PotShare)) return { kind: "none", lines: [] };',
  }),
  caughtBy(MEMBER_TEST, "grants by a purchase that has nothing left", {
    file: RECOGNITION,
    find: "return pot === undefined || pot.free + pot.leased > 0n;",
    put: "return pot === undefined || pot.free + pot.leased >= 0n;",
  }),
  caughtBy(MEMBER_TEST, "takes what another process has leased for used up", {
    file: RECOGNITION,
    find: "return pot === undefined || pot.free + pot.leased > 0n;",
    put: "return pot === undefined || pot.free > 0n;",
  }),
  caughtBy(MEMBER_TEST, "remembers the sign-ins of strangers", {
    file: RECOGNITION,
    find: "if (hasQuota && account.hasKey) return found;",
    put: "if (hasQuota && account.hasKey) return this.#use(signIn, found);",
  }),
  caughtBy(PASS_TEST, "has what was paid for used up before what is free", {
    file: PASSING,
    find: "    const free = await this.#counted.ofQuota(visit, account);\n",
    put: '    const first = await this.#counted.ofPurchase(granted, visit);\n    if (!("kind" in first)) return this.#known(visit, own, "pass", first);\n    const free = await this.#counted.ofQuota(visit, account);\n',
  }),
  caughtBy(SHOP_TEST, "has a page of another site use up what was paid for", {
    file: PASSING,
    find: `    if (!isOwn && plan.quota?.by !== "address") return granted.length > 0 ? NOT_MEANT : NOTHING;\n`,
    put: "",
  }),
  caughtBy(SHOP_TEST, "has a page of another site use up what was paid for, where some is free", {
    file: PASSING,
    find: `    if (!isOwn) return granted.length > 0 ? NOT_MEANT : free;\n`,
    put: "",
  }),
  caughtBy(SHOP_TEST, "never takes off what was used", {
    file: PASSING,
    find: "use?.ended(delivery, answered",
    put: "use?.ended(UNSENT, answered",
  }),
  caughtBy(REDIRECTED_TEST, "uses up what was paid for by a redirect to what is sold", {
    file: PASSING,
    find: "    if (this.#isLed) return true;\n",
    put: "",
  }),
  caughtBy(TOOLS_TEST, "uses up what was paid for by a call that fails", {
    file: PASSING,
    find: "return left !== undefined && (outcome",
    put: "return left !== undefined && !left.sent && (outcome",
  }),
  caughtBy(TOOLS_TEST, "has the backend work for nothing for what its caller has spoilt", {
    file: PASSING,
    find: ' && (outcome !== "quota" || left.isBackends !== false)',
    put: "",
  }),
  caughtBy(GOLDEN_TEST, "opens by a pass what there is not", {
    file: "src/config/passes.ts",
    find: "if (!known.includes(key)) {",
    put: 'if (!known.includes(key) && key === "") {',
  }),
  caughtBy(HOST_TEST, "has a pass open what is sold under another name", {
    file: "src/config/passes.ts",
    find: "const key = keyAt(site, `${METHODS} ${sold.path}`);",
    put: "const key = `${METHODS} ${sold.path}`;",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H25", unit, ...edit };
}
