/** What a reload says of a new file: in the file's words, and nothing that is a secret. */
import { expect, test } from "vitest";
import { changesBetween, parseConfig, type ConfigChange } from "../../../src/config/config.ts";
import { configOf } from "../app/config-of.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

function yaml({ more = "", payTo = PAYEE, accept = "base-sepolia", routes = "" }): string {
  return `
publicUrl: https://api.example.com
upstream: http://127.0.0.1:3000
payTo: "${payTo}"
accept: [${accept}]
facilitator:
  remote: [{ url: https://facilitator.example.com, headers: { Authorization: "Bearer \${TOKEN}" } }]
unmatched: deny
${more}
routes:
  GET /weather: $0.01
  GET /health: free
${routes}
`;
}

function changes(
  before: Parameters<typeof yaml>[0],
  after: Parameters<typeof yaml>[0],
  tokens = ["one-secret", "one-secret"],
): readonly ConfigChange[] {
  const [old, now] = [before, after].map((each, at) =>
    configOf(yaml(each), { TOKEN: tokens[at] ?? "" }),
  );
  if (old === undefined || now === undefined) throw new Error("two configurations are compared");
  return [...changesBetween(old, now)].filter((each) => each !== null);
}

test("a file that says the same in other words and on other lines changes nothing", () => {
  expect(changes({}, { more: "# a comment\n\nlimits: { body: 10240KiB }" })).toEqual([]);
});

test.each([
  [
    { more: "limits: { body: 5MiB, settlementWait: 1500ms, bodyRate: 1KiB/s }" },
    [
      { key: "limits.body", before: "10485760B", after: "5242880B" },
      { key: "limits.settlementWait", before: "30s", after: "1500ms" },
      { key: "limits.bodyRate", before: "512B/s", after: "1024B/s" },
    ],
  ],
  [{ payTo: OTHER }, [{ key: "routes.GET /weather.payTo", before: PAYEE, after: OTHER }]],
  [
    { accept: "base-sepolia, avalanche-fuji" },
    [
      {
        key: "routes.GET /weather.accept",
        before: "base-sepolia USDC",
        after: "base-sepolia USDC, avalanche-fuji USDC",
      },
    ],
  ],
  [
    { routes: "  POST /summary: { price: $0.20 }" },
    [{ key: "routes.POST /summary", before: null, after: "$0.20" }],
  ],
  [
    { more: "trustedProxies: [10.0.0.0/8]" },
    [
      { key: "trustedProxies", before: "", after: null },
      { key: "trustedProxies[0].address", before: null, after: "10.0.0.0" },
      { key: "trustedProxies[0].prefixBits", before: null, after: "8" },
    ],
  ],
])("%j is told by its keys", (after, expected) => {
  expect(changes({}, after)).toEqual(expected);
});

test("prices are told as they are written, before and after, and a route that goes with what it cost", () => {
  const before = { routes: "  GET /a: $0.05\n  GET /b: { price: $0.10 }\n  GET /c: $0.30" };
  const after = { routes: "  GET /a: free\n  GET /b: { price: $0.25, description: Bees }" };
  expect(changes(before, after)).toEqual([
    { key: "routes.GET /a", before: "$0.05", after: "free" },
    { key: "routes.GET /b.price", before: "$0.10", after: "$0.25" },
    { key: "routes.GET /b.description", before: "", after: "Bees" },
    { key: "routes.GET /c", before: "$0.30", after: null },
  ]);
});

test("a secret that is another one is told, and none of the two is shown", () => {
  const found = changes({}, {}, ["one-secret", "another-secret"]);
  expect(found).toEqual([
    {
      key: "facilitator.remote.https://facilitator.example.com.headers[0].value",
      before: "(secret)",
      after: "(secret)",
    },
  ]);
});

test("lists of payers are told by how many are on them, also where only who they are has changed", () => {
  const read = (list: string) => {
    const file = { file: "x.yaml", env: { TOKEN: "a" }, readFile: () => list };
    const parsed = parseConfig(yaml({ more: "payers: { deny: denied.txt }" }), file);
    if (!parsed.ok) throw new Error("the list is read");
    return parsed.config;
  };
  const told = (...lists: readonly [string, string]) => {
    const [before, after] = [read(lists[0]), read(lists[1])];
    return [...changesBetween(before, after)].filter((each) => each !== null);
  };
  const key = "payers.deny";
  expect(told(PAYEE, `# a comment\n${PAYEE.toLowerCase()}\n`)).toEqual([]);
  expect(told(PAYEE, OTHER)).toEqual([{ key, before: "1 listed", after: "1 listed" }]);
  expect(told(`${PAYEE}\n${OTHER}`, "# nobody")).toEqual([
    { key, before: "2 listed", after: "0 listed" },
  ]);
});
