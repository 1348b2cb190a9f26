import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig, type ParseResult } from "../../../src/config/config.ts";
import { reviewConfig } from "../../../src/diagnosis/config-review.ts";
import { environment } from "./fixture.ts";
import { mistakes, plant, SOUND } from "./mistakes/mistakes.ts";

/** Mistakes that are known of. */
const AT_LEAST = 200;

/** What stands in some of them and is never printed. */
const SECRETS = /hunter2|sk_live|sk-live-1|session=1234|bWU6aHVu|Ab3dEfGh|api-key=abc|5a5a5a5a/;

/** As `coinslot check` reads. */
function check(text: string): ParseResult {
  const reading = { ...environment, review: reviewConfig };
  return parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...reading });
}

test("nothing is said of the file without a mistake", () => {
  expect(check(SOUND).problems).toEqual([]);
});

test(`there are at least ${AT_LEAST} mistakes, each another one`, () => {
  const texts = new Set(mistakes().map((each) => plant(each).text));

  expect(texts.size).toBe(mistakes().length);
  expect(texts.size).toBeGreaterThanOrEqual(AT_LEAST);
});

describe("a mistake is told once, at its place, with what to do about it", () => {
  test.each(mistakes().map((each) => [`${each.group}: ${each.what}`, each] as const))(
    "%s",
    (_, mistake) => {
      const { severity, code, mend } = mistake;
      const { text, place } = plant(mistake);

      const { ok, problems, text: masked } = check(text);

      expect(problems, formatProblems(problems, masked)).toMatchObject([
        { severity, code, ...place },
      ]);
      const [problem] = problems;
      expect(`${problem?.message}\n${problem?.suggestion}`).toContain(mend);
      expect(mend.length).toBeGreaterThan(3);
      const saysWhatToWrite = /\b(?:must|needs|is required)\b/.test(problem?.message ?? "");
      expect(problem?.suggestion !== undefined || saysWhatToWrite).toBe(true);
      expect(ok).toBe(severity !== "error");
      expect(formatProblems(problems, masked)).not.toMatch(SECRETS);
    },
  );
});

/** Texts and what is written in their place: what is near to a mistake and is none. */
const MEANT: readonly Parameters<typeof plant>[0][] = [
  {
    what: "a test network beside real ones",
    edits: [["USDC }, solana]", "USDC }, solana, { network: base-sepolia, testnet: true }]"]],
  },
  {
    what: "test networks alone",
    edits: [
      ["description: Weather,", "description: Weather, accept: [base-sepolia, avalanche-fuji],"],
    ],
  },
  {
    what: "a host that closes what the file sells before all is free, by patterns of its own",
    edits: [
      [
        "trustedProxies:",
        "hosts:\n  shop.example.com: { upstream: api, routes: { /weather: deny, /euros/*: deny, /:page: deny, /*: free } }\ntrustedProxies:",
      ],
    ],
  },
  {
    what: "admin for other machines",
    edits: [["admin: 127.0.0.1:9402", 'admin: { address: ":9402", timeline: false }']],
  },
  {
    what: "admin for a scraper",
    edits: [["admin: 127.0.0.1:9402", 'admin: { address: "0.0.0.0:9402", hosts: [gateway] }']],
  },
  {
    what: "another machine's port of the same number",
    edits: [["http://10.0.0.12:3000", "http://10.0.0.12:8402"]],
  },
  {
    what: "this machine's other port",
    edits: [["https://llm.example.com", "http://localhost:3000"]],
  },
  {
    what: "a certificate that a proxy is shown",
    edits: [
      [
        '{ address: "127.0.0.1:8403" }',
        '{ address: ":8443", tls: { cert: /run/listener/tls.crt, key: /run/listener/tls.key } }',
      ],
    ],
  },
  {
    what: "a certificate for the name of publicUrl",
    edits: [
      ["trustedProxies: [10.0.0.0/8]\n", ""],
      ["https://api.example.com", "https://shop.example"],
      [
        '{ address: "127.0.0.1:8403" }',
        '{ address: ":8443", tls: { cert: /run/listener/tls.crt, key: /run/listener/tls.key } }',
      ],
    ],
  },
  {
    what: "a certificate for each name, and one for all below one",
    edits: [
      ["trustedProxies: [10.0.0.0/8]\n", "hosts: [other.example, www.SHOP.example, probe]\n"],
      ["https://api.example.com", "https://shop.example"],
      [
        '{ address: "127.0.0.1:8403" }',
        '{ address: ":8443", tls: { certificates: [{ cert: /run/listener/tls.crt, key: /run/listener/tls.key }, { cert: /run/listener/wild.crt, key: /run/listener/wild.key }] } }',
      ],
    ],
  },
  {
    what: "a facilitator on this machine",
    edits: [["https://facilitator.example.com", "http://127.0.0.1:4022"]],
  },
  {
    what: "a facilitator in a network of containers",
    edits: [["https://facilitator.example.com", "http://facilitator:4021"]],
  },
  {
    what: "a node on this machine",
    edits: [["https://mainnet.base.org", "http://localhost:8545"]],
  },
  {
    what: "a password from a variable",
    edits: [["sqlite:./data/coinslot.db", '"postgres://coinslot:${TOKEN}@db/coinslot"']],
  },
  {
    what: "a database that takes a certificate",
    edits: [["sqlite:./data/coinslot.db", "postgres://coinslot@db/coinslot"]],
  },
  {
    what: "a token from a variable",
    edits: [["X-Site: main", 'Authorization: "Bearer ${TOKEN}"']],
  },
  { what: "a header that proves nothing", edits: [["X-Site: main", "X-Served-By: coinslot"]] },
  {
    what: "a path of an endpoint",
    edits: [["https://rpc.example.org", "https://rpc.example.org/ext/bc/C/rpc"]],
  },
  {
    what: "a key of an endpoint from a variable",
    edits: [["https://rpc.example.org", '"https://rpc.example.org/v2/${TOKEN}"']],
  },
  {
    what: "a folder with a long name",
    edits: [["sqlite:./data/coinslot.db", "sqlite:/tmp/coinslot-site-Ll2PHq/coinslot.db"]],
  },
  {
    what: "a host with a long name",
    edits: [["https://rpc.example.org", "https://an-endpoint-of-avalanche-1/rpc"]],
  },
  { what: "a key that its folder guards", edits: [["env:KEY", "file:/run/closed/key"]] },
  { what: "a key that a container mounts", edits: [["env:KEY", "file:/run/secrets/key"]] },
  {
    what: "a folder from a variable",
    edits: [["sqlite:./data/coinslot.db", '"sqlite:${HOME:-/home/me}/coinslot.db"']],
  },
  {
    what: "a folder with a tilde in its name",
    edits: [["sqlite:./data/coinslot.db", "sqlite:./data~1/coinslot.db"]],
  },
  {
    what: "a slash at the end at the same price",
    edits: [
      [
        "  GET /tokens:",
        "  GET /weather/: { price: $0.01, description: W, upstream: api }\n  GET /tokens:",
      ],
    ],
  },
  {
    what: "capitals that are denied",
    edits: [["  GET /tokens:", "  GET /Weather: deny\n  GET /tokens:"]],
  },
  {
    what: "other methods at another price",
    edits: [
      [
        "  GET /tokens:",
        "  POST /Weather: { price: $0.02, description: W, upstream: api }\n  GET /tokens:",
      ],
    ],
  },
  { what: "a dollar sign in a path", edits: [["GET /health:", "GET /$metadata:"]] },
  {
    what: "a route's own payee",
    edits: [
      [
        "description: Weather,",
        'description: Weather, accept: [base], payTo: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E",',
      ],
    ],
  },
  {
    what: "a name in its own script, encoded",
    edits: [["GET /health:", "GET /%D1%86%D0%B5%D0%BD%D1%8B:"]],
  },
];

describe("what is right, or said to be meant, is passed over", () => {
  test.each(MEANT)("$what", ({ what, edits }) => {
    const { text } = plant({ what, edits: [...edits, ["\nlisten", "\n«»listen"]] });
    const { problems, text: masked } = check(text);

    expect(formatProblems(problems, masked)).toBe("");
  });
});

describe("without secrets", () => {
  const lenient = (text: string): ParseResult =>
    parseConfig(text, {
      file: "x.yaml",
      review: reviewConfig,
      env: {},
      readFile: nothing,
      withoutSecrets: true,
    });

  test("variables, keys and certificates need not be there, and there is no whole configuration", () => {
    const tls = "{ cert: ./tls.crt, key: ./tls.key }";
    const text = SOUND.replace('{ address: "127.0.0.1:8403" }', `{ address: ":8443", tls: ${tls} }`)
      .replace("env:KEY", "file:/run/secrets/none")
      .replace("https://mainnet.base.org", '"${BASE_RPC}"')
      .replace("sqlite:./data/coinslot.db", '"postgres://me:${PASSWORD}@db/coinslot"');

    const { ok, problems, text: masked } = lenient(text);

    expect(formatProblems(problems, masked)).toBe("");
    expect(ok).toBe(false);
    expect(
      lenient("facilitator: { listen: 4021, remote: [https://facilitator.example.com] }").ok,
    ).toBe(true);
  });

  test("every mistake is told that does not lie in a secret", () => {
    const missed = mistakes().filter(({ code, ...mistake }) => {
      const { problems } = lenient(plant(mistake).text);
      return !OF_SECRETS.has(code) && !problems.some((each) => each.code === code);
    });

    expect(missed.map(({ what }) => what)).toEqual([
      "one key twice",
      "a token beside a header that is one",
    ]);
  });
});

function nothing(): never {
  throw new Error("no file is here");
}

/** What only a look at a variable, a key or a certificate can find. */
const OF_SECRETS: ReadonlySet<string> = new Set([
  "unset-variable",
  "unreadable-file",
  "malformed-key",
  "readable-key",
  "key-mismatch",
  "no-certificate",
  "expired-certificate",
  "wrong-name",
  "duplicate-certificate",
]);

describe("what is printed", () => {
  test("is fifty problems at most, errors before others", () => {
    const routes = Array.from({ length: 70 }, (_, index) => `  GETT /${index}: deny\n`).join("");
    const text = SOUND.replace("routes:\n", `routes:\n${routes}`).replace(
      "admin: 127.0.0.1",
      "admin: 0.0.0.0",
    );
    const { problems, text: masked } = check(text);

    const printed = formatProblems(problems, masked);

    expect(problems).toHaveLength(71);
    expect(printed.match(/: error: /g)).toHaveLength(50);
    expect(printed).toMatch(/\nand 20 errors, 1 warning, 0 notes more\n$/);
  });

  test.each([
    ["a program", "\u007fELF\u0002\u0001\u0000\u0000\u0003"],
    ["an archive", "\u001f\ufffd\b\u0000"],
    ["UTF-16", "\ufffd\ufffdl\0i\0s\0t\0e\0n\0"],
    ["noise", "\ufffd".repeat(30)],
  ])("is one line of %s that is no text, and nothing of it", (_, text) => {
    const { problems, text: masked } = check(text);

    expect(problems).toMatchObject([{ code: "not-text", line: 1, column: 1 }]);
    expect(formatProblems(problems, masked)).toBe(
      "/etc/coinslot/gateway.yaml:1:1: error: this is no text in UTF-8, but a program, an archive or another encoding\n" +
        "  name the YAML file, or save it as UTF-8\n",
    );
  });
});
