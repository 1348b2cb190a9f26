/** Files that nobody means: cut ones, and ones that give away what was sold. */
import { describe, expect, test } from "vitest";
import { cutOf, findGivenAway } from "../../../src/app/giving-away.ts";
import { configOf } from "./config-of.ts";

function yaml(routes: string, unmatched = "free"): string {
  return `publicUrl: https://api.example.com
upstream: http://127.0.0.1:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: ${unmatched}
routes:
  GET /health: free
${routes}`;
}

const SOLD = `  GET /slow: $0.05
  GET /reports/:id: $0.25
  /files/*: $0.10
  GET /%C3%A9: $1
`;

async function given(routes: string, unmatched = "free"): Promise<readonly string[]> {
  const [before, after] = [yaml(SOLD), yaml(routes, unmatched)];
  const read = (text: string) => ({ text, included: [], config: configOf(text) });
  return (await findGivenAway([read(before)], read(after))).map(({ message }) => message);
}

describe("what was sold and would be free", () => {
  test.each([
    ["the same routes at other prices", SOLD.replaceAll("$0", "$1"), []],
    [
      "a route that becomes free",
      SOLD.replace("$0.05", "free"),
      ["GET /slow would be free: it costs $0.05 now"],
    ],
    [
      "one method of several",
      SOLD.replace("  /files", "  POST /files/*: free\n  GET /files"),
      ["/files/*, asked by POST, would be free: it costs $0.10 now"],
    ],
    [
      "routes that fall into what is unmatched",
      SOLD.replace(/ {2}GET \/reports.*\n/, ""),
      ["GET /reports/:id would be free: it costs $0.25 now"],
    ],
    [
      "one that is priced by a pattern around it",
      `${SOLD.replace(/.*slow.*\n/, "")}  /*: $0.01\n`,
      [],
    ],
    [
      "one that is free by a pattern around it",
      `${SOLD.replace(/.*slow.*\n/, "")}  /*: free\n`,
      ["GET /slow would be free: it costs $0.05 now"],
    ],
  ])("%s", async (_, routes, expected) => {
    expect(await given(routes)).toEqual(expected);
  });

  test("routes that are gone where everything else is denied cost nobody anything", async () => {
    expect(await given("  GET /slow: $0.05\n  GET /%C3%A9: $1\n", "deny")).toEqual([]);
  });

  test("hundreds are counted, not named", async () => {
    const many = Array.from({ length: 25 }, (_, index) => `  GET /r${index}: $0.01\n`).join("");
    const read = (text: string) => ({ text, included: [], config: configOf(text) });
    const found = await findGivenAway(
      [read(yaml(many))],
      read(yaml(many.replaceAll("$0.01", "free"))),
    );
    expect(found.map(({ message }) => message).slice(9)).toEqual([
      "GET /r9 would be free: it costs $0.01 now",
      "and 15 more",
    ]);
    expect(found[0]).toMatchObject({ line: 9, code: "unpriced-route" });
    expect(found[0]?.suggestion).toContain("coinslot reload FILE --allow-free");
  });
});

test("of several files that are in force in part each counts, and a route once", async () => {
  const read = (text: string) => ({ text, included: [], config: configOf(text) });
  const [older, newer] = [
    yaml("  GET /slow: $0.05\n  GET /old: $3\n"),
    yaml("  GET /slow: $0.06\n  GET /fast: $1\n"),
  ];
  const found = await findGivenAway([read(newer), read(older)], read(yaml("  GET /last: free\n")));
  expect(found.map(({ message }) => message)).toEqual([
    "GET /slow would be free: it costs $0.06 now",
    "GET /fast would be free: it costs $1 now",
    "GET /old would be free: it costs $3 now",
  ]);
  const cut = await findGivenAway([read(older), read(yaml(SOLD, "deny"))], read(yaml("", "deny")));
  expect(cut.map(({ code }) => code)).toEqual(["cut-file"]);
});

describe("a file that ends in the middle", () => {
  const whole = yaml(SOLD, "deny");
  const lines = whole.split("\n");

  test("is known wherever it is cut", () => {
    const cuts = Array.from({ length: whole.length - 2 }, (_, length) =>
      whole.slice(0, length + 1),
    );
    expect(cuts.filter((cut) => cutOf(whole, cut) === undefined)).toEqual([]);
  });

  test("is known where something before the cut is another one, too", () => {
    const edited = whole.replace("$0.05", "$0.07").split("\n");
    for (let count = 9; count < lines.length - 2; count += 1) {
      const cut = `${edited.slice(0, count).join("\n")}\n`;
      expect([count, cutOf(whole, cut) !== undefined]).toEqual([count, !cut.endsWith("$0.07\n")]);
    }
  });

  test("is known among those that a file includes", async () => {
    const read = (text: string) => ({
      text: whole,
      included: [{ name: "more.yaml", text }],
      config: configOf(whole),
    });
    const [before, after] = [read("support: a@b.c\ncors: true\n"), read("support: a@b.c\n")];
    expect(await findGivenAway([before], after)).toMatchObject([
      { code: "cut-file", file: "more.yaml" },
    ]);
    expect(await findGivenAway([{ ...before, included: [] }], after)).toEqual([]);
  });

  test.each([
    ["the same", whole],
    ["one without the last line feed", whole.trimEnd()],
    ["one with more behind it", `${whole}cors: true\n`],
    [
      "another order",
      `${[...lines.slice(0, 8), ...lines.slice(8).toReversed()].join("\n").trimEnd()}\n`,
    ],
    ["a route in the middle gone", whole.replace(/.*reports.*\n/, "")],
    ["a comment behind it", `${whole}# the end\n`],
  ])("is none of these: %s", (_, text) => {
    expect(cutOf(whole, text)).toBeUndefined();
  });
});

describe("what was sold at one of several hosts", () => {
  const host = (name: string, routes: string) => `  ${name}:\n    routes:\n      ${routes}\n`;
  const file = (hosts: string, own = "  GET /health: free\n", more = "") =>
    yaml("", "free")
      .replace("  GET /health: free\n", own)
      .replace("unmatched:", `${hosts === "" ? "" : `hosts:\n${hosts}`}${more}unmatched:`);
  const SHOP = host("shop.example.com", "GET /slow: $0.05");

  test.each([
    ["at another price", file(host("shop.example.com", "GET /slow: $0.01")), []],
    [
      "for nothing there",
      file(host("shop.example.com", "GET /slow: free")),
      ["shop.example.com GET /slow"],
    ],
    [
      "by what is unmatched there",
      file(host("shop.example.com", "GET /other: $1")),
      ["shop.example.com GET /slow"],
    ],
    [
      "where its name is answered by all that is unmatched",
      file(""),
      ["shop.example.com GET /slow"],
    ],
    [
      "where its name is answered by a wildcard",
      file(
        `  "*.example.com":\n    publicUrl: https://a.example.com\n    routes: { GET /other: $1 }\n`,
      ),
      ["shop.example.com GET /slow"],
    ],
    [
      "where its name is in a list",
      file("", undefined, "hosts: [shop.example.com]\n"),
      ["shop.example.com GET /slow"],
    ],
    ["where its name is answered no more", file("", undefined, "hosts: []\n"), []],
    ["where all names are answered for money", file("", "  GET /slow: $0.01\n"), []],
  ])("%s", async (_, after, expected) => {
    const read = (text: string) => ({
      text: `${text}# the end\n`,
      included: [],
      config: configOf(text),
    });
    const found = await findGivenAway([read(file(SHOP))], read(after));
    const free = found.filter(({ code }) => code === "unpriced-route");
    expect(free.map(({ message }) => message.replace(/ would be free.*/, ""))).toEqual(expected);
  });

  test.each([
    ["a name of its list", "hosts: [shop.example.com]\n", "shop.example.com", ["GET /slow"]],
    ["a name below its wildcard", 'hosts: ["*.example.com"]\n', "a.example.com", ["GET /slow"]],
    ["a name that nobody had written", "", "shop.example.com", []],
  ])(
    "what the file sold under %s, at a host that has it now",
    async (_, listed, name, expected) => {
      const sold = "  GET /slow: $0.05\n";
      const read = (text: string) => ({
        text: `${text}# the end\n`,
        included: [],
        config: configOf(text),
      });
      const after = file(host(name, "GET /slow: free"), sold);
      const found = await findGivenAway([read(file("", sold, listed))], read(after));
      const free = found.filter(({ code }) => code === "unpriced-route");
      expect(free.map(({ message }) => message.replace(/ would be free.*/, ""))).toEqual(expected);
    },
  );

  test("what a wildcard sold, at a host of its own below it", async () => {
    const wild = (more: string) =>
      file(
        `  "*.example.com":\n    publicUrl: https://w.example.com\n    routes: { GET /slow: $0.05 }\n${more}`,
      );
    const read = (text: string) => ({ text, included: [], config: configOf(text) });
    const before = read(wild(""));
    const taken = host("a.example.com", "GET /slow: free");
    expect(await findGivenAway([before], read(wild(taken)))).toMatchObject([
      { code: "unpriced-route", message: expect.stringMatching(/^\*\.example\.com GET \/slow /) },
    ]);
    expect(
      await findGivenAway([before], read(wild(host("other.example.org", "/*: free")))),
    ).toEqual([]);
  });

  test("what the file sold itself, at a host that takes over its name", async () => {
    const read = (text: string) => ({ text, included: [], config: configOf(text) });
    const before = file("", "  GET /slow: $0.05\n").replace(
      /https:\S+\n/,
      "https://old.example.com\n",
    );
    const after = file(host("old.example.com", "GET /other: $1"), "  GET /slow: $0.05\n");
    expect(await findGivenAway([read(before)], read(after))).toMatchObject([
      { code: "unpriced-route", message: "GET /slow would be free: it costs $0.05 now" },
    ]);
  });
});
