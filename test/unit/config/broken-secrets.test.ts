import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig } from "../../../src/config/config.ts";
import { environment } from "./fixture.ts";
import { effort } from "../../support/effort.ts";

const SECRETS = {
  bearer: "the-bearer-token",
  header: "the-remote-token",
  rpc: "the-api-key",
  store: "the-password",
  upstream: "the-upstream-key",
  signer: "5c".repeat(32),
};

/** Every secret stands in the file itself, as it should not. */
const TEXT = `upstreams:
  api:
    targets: [http://localhost:3000]
    headers: { set: { X-Key: "${SECRETS.upstream}" }, remove: [] }
facilitator:
  auth: { bearer: "${SECRETS.bearer}" }
  embedded:
    networks:
      base: { rpc: ["https://rpc.example.com/${SECRETS.rpc}"], signers: ["0x${SECRETS.signer}"] }
  remote:
    - url: https://facilitator.example.com
      headers: { Authorization: "Bearer ${SECRETS.header}" }
store: "postgres://me:${SECRETS.store}@db/coinslot"
routes: { GET /a: $0.01 }
`;

describe("a slip of the pen shows no secret", () => {
  test.each([
    ["a bracket", "["],
    ["a brace", "}"],
    ["a line break", "\n"],
    ["a tab", "\t"],
  ])("%s, wherever it is", (_, slip) => {
    const shown: string[] = [];
    for (let at = 0; at <= TEXT.length; at += effort(3, 1)) {
      const text = TEXT.slice(0, at) + slip + TEXT.slice(at);

      const result = parseConfig(text, { file: "x.yaml", ...environment });

      const report = formatProblems(result.problems, result.text);
      const found = Object.values(SECRETS).filter((secret) => report.includes(secret));
      if (found.length > 0) shown.push(`${found.join(" ")} at ${at}`);
    }

    expect(shown).toEqual([]);
  });

  test("nor does a key that is misspelt", () => {
    for (const [from, to] of [
      ["bearer", "baerer"],
      ["headers: { Auth", "hedaers: { Auth"],
      ["rpc", "rcp"],
      ["signers", "singers"],
      ["store", "stroe"],
      ["set", "sett"],
    ] as const) {
      const text = TEXT.replace(from, to);

      const result = parseConfig(text, { file: "x.yaml", ...environment });

      const report = formatProblems(result.problems, result.text);
      expect(report).toContain("unknown key");
      expect(Object.values(SECRETS).filter((secret) => report.includes(secret))).toEqual([]);
    }
  });
});
