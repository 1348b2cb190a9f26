/** Which keys refunds are paid from, and what of them is refused. */
import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig } from "../../../../src/config/config.ts";
import { environment, GATEWAY, KEY, ROUTES, SOLANA_HEX, keypairFile } from "../fixture.ts";

const OTHER = `0x${"07".repeat(32)}`;
const EMBEDDED =
  "{ embedded: { networks: { base: { rpc: [https://rpc.example.com], signers: [env:KEY] } } } }";

function read(refunds: string, facilitator = EMBEDDED) {
  const settled = GATEWAY.replace(/^facilitator:.*$/m, `facilitator: ${facilitator}`);
  const text = `${settled.replace("[base-sepolia]", "[base]")}refunds: ${refunds}\n${ROUTES}`;
  const env = { ...environment.env, KEY, OTHER, SOLANA: keypairFile(SOLANA_HEX) };
  return parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment, env });
}

function problems(refunds: string, facilitator?: string): string {
  const result = read(refunds, facilitator);
  const errors = result.problems.filter(({ severity }) => severity === "error");
  return formatProblems(errors, result.text);
}

describe("refunds", () => {
  test("are paid from a key of their own, up to so many whole tokens a day", () => {
    const result = read("{ signer: { evm: env:OTHER }, maxPerDay: $2.50 }");
    expect(formatProblems(result.problems, result.text)).not.toContain("error");
    const config = result.ok ? result.config.refunds : undefined;
    expect(config).toMatchObject({
      signers: { evm: { source: "env:OTHER" }, solana: null },
      maxPerDay: 2_500_000_000_000_000_000n,
      automatic: false,
    });
    expect(config?.signers.evm?.key.reveal()).toBe(OTHER);
  });

  test.each([
    ["{ signer: { evm: env:KEY }, maxPerDay: $1 }", "the key of a signer that pays network fees"],
    ["{ signer: {}, maxPerDay: $1 }", "must have a key: evm or solana"],
    [
      "{ signer: { solana: env:SOLANA }, maxPerDay: $1 }",
      "no such network is settled in this process",
    ],
    ["{ signer: { evm: env:NONE }, maxPerDay: $1 }", "the environment variable NONE is not set"],
    ["{ signer: { evm: env:OTHER } }", "maxPerDay is required"],
    ["{ signer: { evm: env:OTHER }, maxPerDay: 1 }", "must be an amount such as $100"],
    [
      `{ signer: { evm: "${OTHER}" }, maxPerDay: $1 }`,
      "a private key must not stand in the configuration",
    ],
  ])("%s is refused", (refunds, said) => {
    expect(problems(refunds)).toContain(said);
  });

  test("are sent on no network that is settled elsewhere", () => {
    const said = problems(
      "{ signer: { evm: env:OTHER }, maxPerDay: $1 }",
      "https://pay.example.com",
    );
    expect(said).toContain("no such network is settled in this process");
  });
});
