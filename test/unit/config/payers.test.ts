/** Lists of payers in files of their own. */
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { environment, GATEWAY, parse, ROUTES, SOLANA_ADDRESS } from "./fixture.ts";

const LISTED = "0x857b06519e91e3a54538791bdbb0e22373e36b66";

test("are read from the folder of the file, and told to whoever watches them", () => {
  const { payers } = parse(`${GATEWAY}${ROUTES}payers: { deny: denied.csv, allow: [allowed.txt] }`);
  expect(payers.files).toEqual(["/etc/coinslot/denied.csv", "/etc/coinslot/allowed.txt"]);
  expect(payers.deny.has("base", LISTED)).toBe(true);
  expect(payers.deny.has("solana", SOLANA_ADDRESS)).toBe(false);
  expect(payers.allow?.has("solana", SOLANA_ADDRESS)).toBe(true);
  expect(payers.allow?.has("base", LISTED)).toBe(false);
});

test("let everybody pay where there are none", () => {
  const { payers } = parse(GATEWAY + ROUTES);
  expect([payers.files, payers.allow, payers.deny.size]).toEqual([[], null, 0]);
});

test("need not be there where secrets need not be, and are judged where they are", () => {
  const text = `${GATEWAY}${ROUTES}payers: { deny: [missing.txt, torn.txt] }`;
  const read = parseConfig(text, {
    file: "/etc/coinslot/gateway.yaml",
    ...environment,
    withoutSecrets: true,
  });
  expect(read.problems.map(({ code }) => code).filter((code) => code !== "no-description")).toEqual(
    Array.from({ length: 6 }, () => "bad-file"),
  );
});

test.each(["deny", "allow"])("are refused where a file is being written: %s", (list) => {
  const text = `${GATEWAY}${ROUTES}payers: { ${list}: [denied.csv, emptied.txt] }`;
  const read = parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment });
  expect(read.problems.filter(({ severity }) => severity === "error")).toMatchObject([
    { code: "bad-file", message: "the file is empty", path: ["payers", list, 1] },
  ]);
});

test("may have nobody on them", () => {
  const { payers } = parse(`${GATEWAY}${ROUTES}payers: { deny: nobody.txt }`);
  expect(payers.deny.size).toBe(0);
});
