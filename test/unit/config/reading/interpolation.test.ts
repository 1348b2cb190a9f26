import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../../src/config/config.ts";
import { environment, GATEWAY, parse, priced, ROUTES } from "../fixture.ts";

describe("the environment", () => {
  test("fills values and never adds a key, a list or another value", () => {
    const env = { INJECTED: 'x"\nadmin: 127.0.0.1:1\nroutes: {} # [' };
    const text = `${GATEWAY}routes: { GET /a: { price: $0.01, description: "\${INJECTED}" } }`;

    const result = parseConfig(text, { file: "x.yaml", ...environment, env });

    expect(result.ok && priced(result.config, "GET /a").description).toBe(env.INJECTED);
    expect(result.ok && result.config.admin).toBeNull();
  });

  test("gives numbers and switches as text", () => {
    const env = { N: "30", ON: "true" };
    const text = `${GATEWAY}${ROUTES}cors: \${ON}\nlimits: { inFlight: "\${N}" }`;

    const result = parseConfig(text, { file: "x.yaml", ...environment, env });

    expect(result.ok && [result.config.cors, result.config.limits.inFlight]).toEqual(["any", 30]);
  });

  test("is replaced by a default where a variable is not set or empty", () => {
    const config = parse(`${GATEWAY}${ROUTES}shutdown: \${UNSET:-1s}
limits: { settlementWait: "\${EMPTY:-2s}" }`);

    expect([config.shutdown.withinMs, config.limits.settlementWaitMs]).toEqual([1000, 2000]);
  });

  test("gives the trimmed text of the file that NAME_FILE names", () => {
    expect(parse(`${GATEWAY}${ROUTES}shutdown: \${FROM_FILE}`).shutdown.withinMs).toBe(45_000);
  });

  test("leaves $${ alone but for one $", () => {
    const config = parse(`${GATEWAY}routes: { GET /a: { price: $1, description: "$\${x}" } }`);

    expect(priced(config, "GET /a").description).toBe("${x}");
  });

  test("does not give what every JavaScript object has", () => {
    const text = `${GATEWAY}${ROUTES}store: sqlite:\${constructor}`;

    const { problems } = parseConfig(text, { file: "x.yaml", ...environment });

    const errors = problems.filter(({ severity }) => severity === "error");
    expect(errors.map((each) => each.code)).toEqual(["unset-variable"]);
  });
});
