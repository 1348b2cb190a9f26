/** About who is asked by which name, and who may ask what is not for buyers (H1, H4 and H15). */
import type { Mutant } from "./mutant.ts";

const DECISION = "src/gateway/decision.ts";
const HOSTS = "src/http/host-names.ts";
const ADMIN = "src/admin/admin.ts";
const ENDPOINTS = "src/facilitator/endpoints.ts";

export const ACCESS_MUTANTS: readonly Mutant[] = [
  {
    name: "serves every host where some are listed",
    cites: "H4",
    file: DECISION,
    find: `if (snapshot.hosts?.only === true && `,
    put: `if (snapshot.hosts?.only === null && `,
    topics: ["hosts"],
  },
  {
    name: "does not know a host by its final dot",
    cites: "H4",
    file: HOSTS,
    find: `.replace(/\\.$/, "")`,
    put: ``,
    topics: ["hosts"],
  },
  {
    name: "takes any number of final dots",
    cites: "H4",
    file: HOSTS,
    find: `.replace(/\\.$/, "")`,
    put: `.replace(/\\.+$/, "")`,
    topics: ["hosts"],
  },
  {
    name: "does not know a host by its port",
    cites: "H4",
    file: HOSTS,
    find: `authority.replace(/:\\d*$/, "")`,
    // Those of addresses it still knows: by one of them it is asked whether it is ready.
    put: `authority.replace(/(?<=\\d):\\d*$/, "")`,
    topics: ["hosts"],
  },
  {
    name: "takes a host whose name ends like one below a wildcard",
    cites: "H4",
    file: HOSTS,
    find: `if (this.#endings.has(host.slice(dot))) return true;`,
    put: `if ([...this.#endings].some((ending) => host.endsWith(ending.slice(1)))) return true;`,
    topics: ["hosts"],
  },
  {
    name: "takes nothing for a name below a wildcard",
    cites: "H4",
    file: HOSTS,
    find: `let dot = host.indexOf(".", 1);`,
    put: `let dot = host.indexOf(".");`,
    topics: ["hosts"],
  },
  {
    name: "takes a name that ends like localhost for it",
    cites: "H4",
    file: HOSTS,
    find: `host.endsWith(".localhost")`,
    put: `host.endsWith("localhost")`,
    topics: ["hosts"],
  },
  {
    name: "takes what looks like an address for one",
    cites: "H4",
    file: HOSTS,
    find: `return isIP(host.replace(/^\\[|\\]$/g, "")) !== 0;`,
    put: `return isIP(host.replace(/^\\[|\\]$/g, "")) !== 0 || /^\\d/.test(host);`,
    topics: ["hosts"],
  },
  {
    name: "sends a request back as it arrived",
    cites: "H1",
    file: DECISION,
    find: `if (request.method === "TRACE") return "TRACE is not taken here.";`,
    put: ``,
    topics: ["methods"],
  },
  {
    name: "shows the operator's pages by any name",
    cites: "H15",
    file: ADMIN,
    find: `if (!names.has(request.headers.host)) return send(response, 403, UNKNOWN_NAME);`,
    put: ``,
    topics: ["not-for-buyers"],
  },
  {
    name: "lets a page reload the configuration",
    cites: "H15",
    file: ADMIN,
    find: `if (request.headers.origin === undefined) return true;`,
    put: `return true;`,
    topics: ["not-for-buyers"],
  },
  {
    name: "settles for a page",
    cites: "H15",
    file: ENDPOINTS,
    find: `if (caller === ANYBODY && request.headers.origin !== undefined) {`,
    put: `if (caller === undefined) {`,
    topics: ["not-for-buyers"],
  },
  {
    name: "settles what a page may send without asking",
    cites: "H15",
    file: ENDPOINTS,
    find: `if (!JSON_BODY.test(request.headers["content-type"] ?? "")) {`,
    put: `if (caller === undefined) {`,
    topics: ["not-for-buyers"],
  },
  {
    name: "takes a type that begins like that of JSON",
    cites: "H15",
    file: ENDPOINTS,
    find: `const JSON_BODY = /^application\\/json[ \\t]*(?:;|$)/i;`,
    put: `const JSON_BODY = /^application\\/json/i;`,
    topics: ["not-for-buyers"],
  },
  {
    name: "settles what is not worth its gas",
    cites: "H15",
    file: ENDPOINTS,
    find: `if (BigInt(paymentRequirements.maxAmountRequired) >= least) return parsed;`,
    put: `if (least >= 0n) return parsed;`,
    topics: ["not-for-buyers"],
  },
  {
    name: "settles for whoever knows no token",
    cites: "H15",
    file: ENDPOINTS,
    find: `const caller = known ?? (endpoint.isOpen ? ANYBODY : undefined);`,
    put: `const caller = known ?? ANYBODY;`,
    topics: ["not-for-buyers"],
  },
];
