/** About what buyers have prepaid, and who spends it (H26). */
import type { Mutant } from "./mutant.ts";

const SPENDING = "src/gateway/spending.ts";
const PRICE = "src/payments/credits/credit-price.ts";
const SHOWN = "src/gateway/signed-in.ts";
const SESSION = "src/x402/session.ts";

const UPGRADING = "src/gateway/upstream/upgrade-engine.ts";
const STRANGERS_TEST = "test/integration/credits-strangers.test.ts";
const SPENDING_TEST = "test/integration/credits-spending.test.ts";
const PRICE_TEST = "test/unit/payments/credits/credit-price.test.ts";
const SESSION_TEST = "test/unit/x402/session.test.ts";

export const SPENDING_MUTANTS: readonly Mutant[] = [
  caughtBy(SPENDING_TEST, "spends for whatever page has a browser ask", {
    file: SPENDING,
    find: `  if (!isMeant(shownIn, request)) return null;\n`,
    put: "",
  }),
  caughtBy(SPENDING_TEST, "spends for what a browser fetches before anybody wants it", {
    file: SHOWN,
    find: `return headers["sec-purpose"] === undefined && headers["purpose"] === undefined;`,
    put: "return true;",
  }),
  caughtBy(SPENDING_TEST, "spends for who only opens what has a page that says the price", {
    file: SPENDING,
    find: `  if (shownIn === "Cookie" && page !== null && wantsPage(request)) return null;\n`,
    put: "",
  }),
  caughtBy(SPENDING_TEST, "debits what is no goods", {
    file: SPENDING,
    find: "if (isBought) used = metered === null",
    put: "used = metered === null",
  }),
  caughtBy(SPENDING_TEST, "debits a redirect to what is sold here, too", {
    file: SPENDING,
    find: " && !answered.leadsOn(status)",
    put: "",
  }),
  caughtBy(STRANGERS_TEST, "debits a redirect in place of a tunnel", {
    file: UPGRADING,
    find: "      if (sale === null) judge?.(status, answer.rawHeaders);\n      else if (sale.judge",
    put: "      if (sale !== null && sale.judge",
  }),
  caughtBy(SPENDING_TEST, "debits a head alone", {
    file: SPENDING,
    find: `  if (request.method === "HEAD" && soldMethod === "GET") return null;\n`,
    put: "",
  }),
  caughtBy(SPENDING_TEST, "gives for nothing what was begun by who then leaves", {
    file: SPENDING,
    find: `if (kind !== "delivered" && kind !== "abandoned") return false;`,
    put: `if (kind !== "delivered") return false;`,
  }),
  caughtBy(SPENDING_TEST, "has things done for nothing for who leaves at once", {
    file: SPENDING,
    find: `return kind === "abandoned" && delivery.sent && !isHarmless(decision.soldMethod);`,
    put: "return isHarmless(decision.soldMethod) && false;",
  }),
  caughtBy(SPENDING_TEST, "debits who leaves before there is an answer to what he only asks", {
    file: SPENDING,
    find: `return kind === "abandoned" && delivery.sent && !isHarmless(decision.soldMethod);`,
    put: `return kind === "abandoned" && delivery.sent;`,
  }),
  caughtBy(SPENDING_TEST, "asks members for what others pay", {
    file: SPENDING,
    find: "member === undefined ? plan.credits : (member.credits ?? null)",
    put: "plan.credits",
  }),
  caughtBy(SPENDING_TEST, "spends where a purchase grants it", {
    file: SPENDING,
    find: "plan.grants.length === 0 && plan.quota === null",
    put: "plan.quota === null",
  }),
  caughtBy(SPENDING_TEST, "spends the most that a computed price may be", {
    file: SPENDING,
    find: " && readsBody !== true &&",
    put: " &&",
  }),
  caughtBy(SPENDING_TEST, "serves from a balance whom the file denies", {
    file: SPENDING,
    find: "signIn?.areScreened === false",
    put: "signIn !== null",
  }),
  caughtBy(SPENDING_TEST, "asks who has prepaid to pay where it is not known what there is", {
    file: SPENDING,
    find: `return share === "short"`,
    put: `return share !== "busy" || share === "busy"`,
  }),
  caughtBy(PRICE_TEST, "spends of a key's balance by code at the same address", {
    file: PRICE,
    find: "hasKey ? undefined : own",
    put: "undefined",
  }),
  caughtBy(PRICE_TEST, "spends by code what was prepaid on other chains", {
    file: PRICE,
    find: "!isAccountOn(name, account)",
    put: "!isAccountOn(name, { ...account, hasKey: true })",
  }),
  caughtBy(PRICE_TEST, "takes a balance for any token", {
    file: PRICE,
    find: "return isSameToken(network, networkOf(network).asset.address, asset.address);",
    put: "return isSameToken(network, asset.address, asset.address);",
  }),
  caughtBy(SESSION_TEST, "knows a session that is over", {
    file: SESSION,
    find: "known?.token === token && nowMs < known.session.untilMs",
    put: "known?.token === token",
  }),
  caughtBy(SESSION_TEST, "takes whatever ends as a good session does", {
    file: SESSION,
    find: "known?.token === token && nowMs",
    put: "known !== undefined && nowMs",
  }),
  caughtBy(
    "test/integration/mcp/sold-ways.test.ts",
    "tells what a call has cost before it is known whether it has sold anything",
    {
      file: SPENDING,
      find: "metered === null && decision.conversation === undefined;",
      put: "metered === null;",
    },
  ),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H26", unit, ...edit };
}
