/** Who is in which group, by what is proven of an account. */
import { describe, expect, test } from "vitest";
import {
  memberOf,
  membershipsOf,
  offersOfPayer,
  type MemberTerms,
} from "../../../src/gateway/membership.ts";
import { Offers } from "../../../src/payments/sale/offers.ts";
import { PayerList } from "../../../src/x402/payer-list.ts";
import { examplePayment, PAYER } from "../ledger/example-payment.ts";

const OTHER = `0x${"12".repeat(20)}`;
const { paymentPayload: payment, paymentRequirements } = examplePayment(1).request;
const { resource: _url, ...offer } = paymentRequirements;

function group(name: string, entries: string, offers: Offers | null): MemberTerms {
  const list = new PayerList("that");
  expect(list.read(entries)).toEqual([]);
  return { group: name, list, offers, page: null };
}

const cheap = new Offers([{ ...offer, maxAmountRequired: "1" }]);
const on = (network: "base" | "polygon", address = PAYER, hasKey = true) => {
  return { network, address, hasKey } as const;
};

describe("an account", () => {
  const staff = group("staff", PAYER.toLowerCase(), null);
  const partners = group("partners", `eip155:8453:${PAYER}\n${OTHER}`, cheap);

  test("is in the first group that lists it, on the chain that the list names", () => {
    expect(memberOf([partners, staff], on("base"))?.group).toBe("partners");
    expect(memberOf([partners, staff], on("polygon"))?.group).toBe("staff");
    expect(memberOf([staff, partners], on("base"))?.group).toBe("staff");
    expect(memberOf([partners, staff], on("base", `0x${"34".repeat(20)}`))).toBeUndefined();
  });

  test("of code is in a group that lists it with that chain alone", () => {
    expect(memberOf([staff], on("base", PAYER, false))).toBeUndefined();
    expect(memberOf([partners], on("base", PAYER, false))?.group).toBe("partners");
    expect(memberOf([partners], on("base", OTHER, false))).toBeUndefined();
  });

  test("is told what it would be by a key, and by code", () => {
    expect(membershipsOf([partners, staff], on("polygon"))).toEqual({ key: "free", code: "none" });
    expect(membershipsOf([partners], on("base"))).toEqual({ key: "priced", code: "priced" });
    expect(membershipsOf([], on("base"))).toEqual({ key: "none", code: "none" });
  });
});

test("a payment may be for what is asked of its payer's groups, and of no other's", () => {
  const { network } = payment;
  expect(network).toBe("base-sepolia");
  const free = group("staff", PAYER, null);
  const own = group("partners", PAYER, cheap);
  const others = group("others", OTHER, cheap);
  expect(offersOfPayer([free, own, others], payment)).toEqual([cheap]);
  expect(offersOfPayer([free, others], payment)).toEqual([]);
  expect(offersOfPayer([], payment)).toEqual([]);
  // Of several groups the first one counts; by a key, and by code.
  const cheaper = new Offers([{ ...offer, maxAmountRequired: "2" }]);
  const second = group("second", PAYER, cheaper);
  expect(offersOfPayer([own, second], payment)).toEqual([cheap]);
  const onChain = group("on its chain", `eip155:84532:${PAYER}`, cheaper);
  expect(offersOfPayer([own, onChain, second], payment)).toEqual([cheap, cheaper]);
});
