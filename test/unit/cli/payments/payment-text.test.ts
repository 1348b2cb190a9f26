import { array, assert, constantFrom, property, string, tuple } from "fast-check";
import { describe, expect, test } from "vitest";
import { toCsv, toJson, toPage, toTable } from "../../../../src/cli/payments/payment-text.ts";
import type { PaymentView } from "../../../../src/admin/payment-view.ts";
import { exampleDetail, exampleView, KEY } from "../example-view.ts";

/** A reader of RFC 4180, strict: a quote inside a bare field is an error. */
function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;
  while (field.lastIndex < text.length) {
    const at = field.lastIndex;
    const match = field.exec(text);
    if (match === null) throw new Error(`not CSV at ${at}: ${text.slice(at, at + 40)}`);
    const [, quoted, bare = "", end] = match;
    row.push(quoted?.replaceAll('""', '"') ?? bare);
    if (end === ",") continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

/** What a terminal might obey, or what hides or turns round a text. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const HOSTILE = "\u001b]0;owned\u0007\u009b31m\u202egnp.exe\u2028\r\nnext\t\u007f\u{e0001}";

const scraps = array(
  constantFrom("\u001b[2J", "\u009b1m", "\u202e", '"', ",", "\r", "\n", "=", "@", "\u2029", "x"),
  { maxLength: 6 },
).map((parts) => parts.join(""));
const names = constantFrom("binding", "failureDetail", "facilitator", "network", "payer", "target");
const anything = tuple(names, scraps, string({ unit: "binary" })).map(
  ([name, one, other]): Partial<PaymentView> => ({ [name]: one + other }),
);

/** A refund has four columns. */
const NAMES = [
  ...Object.keys(exampleView()).filter((name) => name !== "refund" && name !== "isRefund"),
  "refundState",
  "refundTransaction",
  "refundDetail",
  "refundCreditsAtomic",
];

describe("the CSV form", () => {
  test("says of a refund where it stands", () => {
    const sent = { state: "REFUNDED", transaction: "0x77", detail: null, transfer: null };
    const whole = { ...sent, credits: null, creditsAtomic: null };
    const part = { ...sent, credits: "0.004", creditsAtomic: "4000" };
    const [, one, other] = readCsv(
      toCsv([exampleView({ refund: whole }), exampleView({ refund: part })]),
    );
    expect(one?.slice(-4)).toEqual(["REFUNDED", "0x77", "", ""]);
    expect(other?.slice(-4)).toEqual(["REFUNDED", "0x77", "", "4000"]);
  });

  test("is a line of names and a line for each payment, with CRLF", () => {
    const csv = toCsv([exampleView(), exampleView({ state: "FAILED", transaction: null })]);

    const [head, ...rows] = readCsv(csv);
    expect(csv.endsWith("\r\n")).toBe(true);
    expect(head).toEqual(NAMES);
    expect(rows).toHaveLength(2);
    const { refund: _refund, isRefund: _isRefund, ...plain } = exampleView();
    const cells = Object.values(plain).map((value) => String(value ?? ""));
    expect(rows[0]).toEqual([...cells, "", "", "", ""]);
  });

  test("has its names even without payments", () => {
    expect(readCsv(toCsv([]))).toEqual([NAMES]);
  });

  test("quotes what has commas and quotes", () => {
    const [, row] = readCsv(toCsv([exampleView({ binding: 'GET /a,b"c' })]));

    expect(row).toContain('GET /a,b"c');
  });

  test.each(["=1+1", "+1", "-1", "@SUM(A1)", "＝1+1", '=HYPERLINK("http://x","y")'])(
    "never has a cell that a spreadsheet would calculate: %s",
    (formula) => {
      const [, row] = readCsv(toCsv([exampleView({ failureDetail: formula, binding: formula })]));

      expect(row).toContain(`'${formula}`);
      expect(row?.filter((cell) => /^[=+\-@＝]/.test(cell))).toEqual([]);
    },
  );

  test("survives whatever stands in a payment", () => {
    assert(
      property(anything, (part) => {
        const rows = readCsv(toCsv([exampleView(part)]));
        expect(rows.map((row) => row.length)).toEqual([23, 23]);
        expect(rows.flat().filter((cell) => UNSAFE.test(cell) || /^[=+@-]/.test(cell))).toEqual([]);
      }),
    );
  });
});

describe("the JSON form", () => {
  test("is one document that gives back what was put in, whatever it is", () => {
    assert(
      property(anything, (part) => {
        const view = exampleView(part);
        const json = toJson({ payments: [view], next: null });
        expect(JSON.parse(json)).toEqual({ payments: [view], next: null });
        expect(json.replaceAll("\n", "")).not.toMatch(UNSAFE);
      }),
    );
  });

  test("escapes what a terminal obeys", () => {
    expect(toJson({ text: HOSTILE }).replaceAll("\n", "")).not.toMatch(UNSAFE);
    expect(JSON.parse(toJson({ text: HOSTILE }))).toEqual({ text: HOSTILE });
  });
});

describe("the table", () => {
  test("has a line for each payment, in columns", () => {
    const table = toTable([exampleView(), exampleView({ state: "CLAIMED", attempts: 0 })], false);

    expect(table).toBe(
      [
        "CLAIMED               STATE    TRIES  AMOUNT     NETWORK       PAYER        BOUGHT        NONCE",
        `2026-08-01 12:00:00Z  SETTLED  1      0.01 USDC  base-sepolia  0x857b…6b66  GET /weather  0x${"ab".repeat(32)}`,
        `2026-08-01 12:00:00Z  CLAIMED  0      0.01 USDC  base-sepolia  0x857b…6b66  GET /weather  0x${"ab".repeat(32)}`,
        "",
      ].join("\n"),
    );
  });

  test("paints the states, and changes nothing else", () => {
    const views = [exampleView(), exampleView({ state: "FAILED" })];
    const painted = toTable(views, true);

    expect(painted).toContain("\u001b[31mFAILED");
    const plain = [0, 31, 33].reduce(
      (text, code) => text.replaceAll(`\u001b[${code}m`, ""),
      painted,
    );
    expect(plain).toBe(toTable(views, false));
  });

  test("shows atomic units of a token that nobody knows", () => {
    const view = exampleView({ symbol: null, amount: null });

    expect(toTable([view], false)).toContain("  10000 units  ");
  });

  test("keeps one line for each payment, whatever stands in it", () => {
    assert(
      property(anything, (part) => {
        const lines = toTable([exampleView(part)], false).split("\n");
        expect(lines).toHaveLength(3);
        expect(lines.join("")).not.toMatch(UNSAFE);
      }),
    );
  });
});

describe("the page of one payment", () => {
  test("says everything, and leaves out what there is not", () => {
    const page = toPage(
      exampleDetail({
        submission: {
          id: "0x01",
          state: "OPEN",
          account: "0xACC0",
          accountNonce: 7,
          transactions: ["0x01", "0x02"],
        },
        events: [
          { at: "2026-08-01T12:00:00.000Z", state: "CLAIMED", note: "GET /weather", by: "life" },
          { at: "2026-08-01T12:00:01.000Z", state: "SETTLED", note: "", by: "life" },
        ],
      }),
      false,
    );

    expect(page).toBe(`payment      ${KEY}
state        SETTLED
amount       0.01 USDC (10000 atomic units of 0x036CbD53842c5426634e7929541eC2318f3dCF7e)
network      base-sepolia
payer        0x857b06519E91e3A54538791bDbb0E22373e36b66
paid to      0x209693Bc6afc0C5328bA36FaF03C514EF312287C
bought       GET /weather
target       /weather?city=Rome
resource     https://api.example.com/weather
transaction  0x${"cd".repeat(32)}
explorer     https://sepolia.basescan.org/tx/0x${"cd".repeat(32)}
attempts     1
claimed      2026-08-01 12:00:00Z
changed      2026-08-01 12:00:01Z

submission
  account  0xACC0, nonce 7
  state    OPEN
  signed   0x01
  signed   0x02

history
  2026-08-01 12:00:00Z  CLAIMED     GET /weather  (life)
  2026-08-01 12:00:01Z  SETTLED     (life)

what to do
  send it again
`);
  });

  test("lets nothing through that a terminal obeys", () => {
    const page = toPage(
      exampleDetail({
        binding: HOSTILE,
        resource: HOSTILE,
        failureCode: "invalid_payload",
        failureDetail: HOSTILE,
        events: [{ at: "2026-08-01T12:00:00.000Z", state: "FAILED", note: HOSTILE, by: HOSTILE }],
      }),
      false,
    );

    expect(page.replaceAll("\n", "")).not.toMatch(UNSAFE);
    expect(page).not.toContain("\nnext");
  });
});
