/** For which names certificates are, and which of several a client gets. */
import { describe, expect, test } from "vitest";
import { CertificateTable, certificateNames } from "../../../src/http/certificate-names.ts";
import { FIRST, NAMELESS, WILD } from "../../support/listener-tls.ts";

describe("the names of a certificate", () => {
  test("are its hosts, wildcards among them; addresses and a common name are none", () => {
    expect(certificateNames(FIRST.cert)).toEqual(["shop.example", "localhost"]);
    expect(certificateNames(WILD.cert)).toEqual(["*.shop.example", "other.example"]);
    expect(certificateNames(NAMELESS.cert)).toEqual([]);
  });

  test("are those of the first in the file, and none of a text without one", () => {
    expect(certificateNames(WILD.cert + FIRST.cert)).toEqual(certificateNames(WILD.cert));
    expect(() => certificateNames("nothing")).toThrow();
  });
});

describe("of several certificates", () => {
  const table = new CertificateTable([
    [["*.shop.example", "shop.example"], "wild"],
    [["www.shop.example", "shop.example"], "exact"],
    [["*.deep.shop.example"], "deep"],
  ]);

  test.each([
    ["shop.example", "wild"],
    ["SHOP.example", "wild"],
    ["api.shop.example", "wild"],
    ["www.shop.example", "exact"],
    ["WWW.shop.EXAMPLE", "exact"],
    ["a.deep.shop.example", "deep"],
    ["deep.shop.example", "wild"],
    ["a.b.shop.example", undefined],
    [".shop.example", undefined],
    ["ashop.example", undefined],
    ["example", undefined],
    ["", undefined],
    ["elsewhere.example", undefined],
    ["constructor", undefined],
  ])("%j gets %s", (name, expected) => {
    expect(table.of(name)).toBe(expected);
  });
});
