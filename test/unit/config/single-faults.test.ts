import { describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { environment } from "./fixture.ts";
import { FAULTS, SHADOWED, SOUND } from "./single-faults.ts";

function errors(text: string): readonly string[] {
  const { problems } = parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment });
  return problems.filter(({ severity }) => severity === "error").map((each) => each.code);
}

function isShadowed(one: string, other: string): boolean {
  return SHADOWED.some((pair) => pair.includes(one) && pair.includes(other));
}

describe("one fault", () => {
  test("is not in the file without one, which passes without a warning", () => {
    const { problems } = parseConfig(SOUND, { file: "x.yaml", ...environment });

    expect(problems.filter(({ severity }) => severity !== "note")).toEqual([]);
  });

  test.each(FAULTS)("$from → $to is one error", ({ from, to, code }) => {
    expect(SOUND).toContain(from);

    expect(errors(SOUND.replace(from, () => to))).toEqual([code]);
  });
});

describe("two faults", () => {
  test.each(FAULTS)("$from → $to hides no other, and adds none", ({ from, to, code }) => {
    const text = SOUND.replace(from, () => to);
    for (const other of FAULTS) {
      // Two replacements at one place are one fault; each pair is tried once.
      if (!text.includes(other.from) || SOUND.indexOf(other.from) <= SOUND.indexOf(from)) continue;
      if (isShadowed(from, other.from)) continue;

      const found = errors(text.replace(other.from, () => other.to));

      expect(found.toSorted(), `${from} and ${other.from}`).toEqual([code, other.code].toSorted());
    }
  });
});
