/** What is said of what a request costs one payer, by the file alone. */
import { expect, test } from "vitest";
import { explain } from "../../../src/diagnosis/explanation.ts";
import { payerNotes } from "../../../src/diagnosis/payer-notes.ts";
import { PayerList } from "../../../src/x402/payer-list.ts";
import { configOf } from "../app/config-of.ts";

const [PARTNER, STAFF, STRANGER] = [
  "0x857b06519E91e3A54538791bDbb0E22373e36b66",
  "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF",
  "0x6813Eb9362372EEF6200f3b1dbC3f819671cBA69",
];
const SOLANA = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";
const TEXT = `
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base, polygon]
facilitator:
  remote: [https://facilitator.example.com]
  rpc: { base: [https://mainnet.base.org] }
unmatched: deny
members:
  staff: "eip155:8453:${STAFF}"
  rich: { token: USDC, network: base, atLeast: 2.5 }
  partners: ["${PARTNER}", "${STAFF}"]
routes:
  GET /plain: { price: $0.01, description: A }
  GET /free: free
  GET /known: { price: $0.01, description: B, grants: 24h, prices: { staff: free, rich: free, partners: $0.005 } }
`;
const config = configOf(TEXT);

function said(path: string, payer: string, of = config): readonly string[] {
  const { notes } = explain(of, { method: "GET", url: path, headers: [], payer });
  return notes.filter((note) => /0x|ledger|else pays|2wK/.test(note));
}

const UNSEEN = "what it has bought, prepaid or used stands in the ledger, which is not looked at";

test("a member pays what the first of its groups does, on which networks it is in that", () => {
  expect(said("/known", PARTNER)).toEqual([
    `if ${PARTNER} holds 2.5 USDC on base, it is in rich: it costs nothing, by a sign-in or a session`,
    `${PARTNER} is in partners: it costs $0.005`,
    UNSEEN,
  ]);
  expect(said("/known", STAFF)).toEqual([
    `${STAFF} is in staff on base: it costs nothing, by a sign-in or a session`,
    `if ${STAFF} holds 2.5 USDC on base, it is in rich: it costs nothing, by a sign-in or a session`,
    `${STAFF} is in partners: it costs $0.005`,
    UNSEEN,
  ]);
});

test("of others it is said what would make them members, and that they pay what anybody does", () => {
  expect(said("/known", STRANGER)).toEqual([
    `if ${STRANGER} holds 2.5 USDC on base, it is in rich: it costs nothing, by a sign-in or a session`,
    `${STRANGER} else pays what anybody does`,
    UNSEEN,
  ]);
  expect(said("/plain", STRANGER)).toEqual([
    `${STRANGER} is in no group with a price of its own here, and pays what anybody does`,
  ]);
  expect(said("/free", STRANGER)).toEqual([`for ${STRANGER} it is as for anybody`]);
  expect(said("/plain", SOLANA)).toEqual([
    `${SOLANA} cannot pay it: it is sold on no Solana network`,
  ]);
});

test("who may not pay is told that alone", () => {
  const listed = (...payers: readonly string[]): PayerList => {
    const list = new PayerList("any");
    for (const payer of payers) list.read(payer);
    return list;
  };
  const route = config.routes.find(({ key }) => key === "GET /known") ?? null;
  const of = (payers: Partial<typeof config.payers>, payer = PARTNER) =>
    payerNotes({ ...config, payers: { ...config.payers, ...payers } }, route, payer);
  expect(of({ deny: listed(PARTNER) })).toEqual([
    `${PARTNER} may not pay, nor sign in: it is on payers.deny`,
  ]);
  expect(of({ allow: listed(STAFF) })).toEqual([
    `${PARTNER} may not pay, nor sign in: it is not on payers.allow`,
  ]);
  expect(of({ deny: listed(STAFF), allow: listed(PARTNER) })[1]).toBe(
    `${PARTNER} is in partners: it costs $0.005`,
  );
});

test("nothing is said of payers where nobody asks for one", () => {
  const { notes } = explain(config, { method: "GET", url: "/known", headers: [] });
  expect(notes.filter((note) => note.includes("0x"))).toEqual([]);
});
