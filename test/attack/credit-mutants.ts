/** About what buyers prepay: how much it is, whose, and who is told (H27). */
import type { Mutant } from "./mutant.ts";

const OWN_ROUTES = "src/app/own-routes.ts";
const OWN_ENGINE = "src/app/own-engine.ts";
const POTS = "src/ledger/pots.ts";

const UNIT = "test/unit/app/own-routes.test.ts";
const BOUGHT = "test/integration/credits.test.ts";
const GOLDEN = "test/unit/config/golden.test.ts";

export const CREDIT_MUTANTS: readonly Mutant[] = [
  caughtBy(UNIT, "fills more than was asked for", {
    file: OWN_ROUTES,
    find: "amount: BigInt(terms.maxAmountRequired),",
    put: "amount: 2n * BigInt(terms.maxAmountRequired),",
  }),
  caughtBy(UNIT, "fills what code has paid for on all chains", {
    file: OWN_ROUTES,
    find: "creditsPot(network, payer, hasKey ? undefined : network.name)",
    put: "creditsPot(network, payer)",
  }),
  caughtBy(UNIT, "sells credits for any token", {
    file: OWN_ROUTES,
    find: "if (network === undefined || !sameAddress(asset, network.asset.address))",
    put: "if (network === undefined)",
  }),
  caughtBy(UNIT, "shows code what was prepaid at its address on other chains", {
    file: POTS,
    find: "hasKey ? NETWORK_NAMES.map((name) => networkOf(name)) : [networkOf(own)]",
    put: "NETWORK_NAMES.map((name) => networkOf(name))",
  }),
  caughtBy(UNIT, "shows code what a key has prepaid", {
    file: POTS,
    find: "creditsPot(network, address, hasKey ? undefined : own), unit",
    put: "creditsPot(network, address), unit",
  }),
  caughtBy(UNIT, "sells a pack to a request with any body", {
    file: OWN_ENGINE,
    find: "<= MAX_BODY_BYTES) return null;",
    put: ">= 0) return null;",
  }),
  caughtBy(UNIT, "sells a pack over a handshake, which it does not answer", {
    file: OWN_ENGINE,
    find: "if (switching !== null) return NO_TUNNEL;",
    put: "",
  }),
  caughtBy(UNIT, "answers what nobody has paid for", {
    file: OWN_ENGINE,
    find: "if (sale?.paid === undefined) return UNPAID;",
    put: 'if (sale?.paid === undefined) return { kind: "delivered", status: 200, upstreamMs: 0 };',
  }),
  caughtBy(BOUGHT, "takes whoever pays for one who has its key", {
    file: "src/payments/sale/payment-service.ts",
    find: 'return findNetwork(network)?.kind !== "evm" || provenPayer !== undefined;',
    put: 'return findNetwork(network)?.kind !== "evm" || provenPayer !== null;',
  }),
  caughtBy(BOUGHT, "fills nothing", {
    file: "src/gateway/delivery.ts",
    find: "fills: plan.fills,",
    put: "",
  }),
  caughtBy(BOUGHT, "leads a payment on to a pack, which it does not fill", {
    file: "src/gateway/redirects.ts",
    find: "  if (plan.fills !== undefined) return null;\n",
    put: "",
  }),
  caughtBy(BOUGHT, "tells a balance to whoever names its account", {
    file: "src/gateway/sessions.ts",
    find: 'if ("kind" in shown) return ok(shown);',
    put: 'if ("address" in shown) return ok({ ...shown, hasKey: true });',
  }),
  caughtBy(GOLDEN, "lets a route of the file take the place of a pack", {
    file: "src/config/routes/own.ts",
    find: "if (!isTaken || isOwn(route)) continue;",
    put: "if (isTaken || isOwn(route)) continue;",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H27", unit, ...edit };
}
