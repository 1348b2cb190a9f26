import { describe, expect, test } from "vitest";
import { placesOf, readMemory } from "../../../src/app/places.ts";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

describe("places", () => {
  test("are as many as the file says, whatever the memory", () => {
    expect(placesOf(7, 1, { machine: GIB, allowed: 64 * MIB }).count).toBe(7);
    expect(placesOf(90_000, 1, { machine: GIB, allowed: undefined }).count).toBe(90_000);
  });

  test("are as many as nine tenths of a container's memory hold beside the program", () => {
    const { count, reason } = placesOf(null, 1, { machine: 64 * GIB, allowed: 512 * MIB });
    expect(count).toBe(268);
    expect(reason).toBe(
      "what nine tenths of the 512 MiB that are allowed here hold, 192 MiB for the program and 1 MiB for each",
    );
  });

  test("or of the machine's, where nothing less is allowed", () => {
    const { count, reason } = placesOf(null, 1, { machine: GIB, allowed: undefined });
    expect(count).toBe(729);
    expect(reason).toContain("the 1024 MiB of this machine");
  });

  test("are fewer where workers have memory of their own", () => {
    const { count, reason } = placesOf(null, 2, { machine: 64 * GIB, allowed: GIB });
    expect(count).toBe(601);
    expect(reason).toContain("320 MiB for the program");
  });

  test("are never more than 5000 without the key, and never fewer than 100", () => {
    expect(placesOf(null, 1, { machine: 64 * GIB, allowed: undefined }).count).toBe(5_000);
    expect(placesOf(null, 1, { machine: 64 * GIB, allowed: 16 * MIB }).count).toBe(100);
  });

  test("what is no limit is not taken for one", () => {
    const { machine, allowed } = readMemory();
    expect(machine).toBeGreaterThan(0);
    expect(allowed ?? 1).toBeGreaterThan(0);
    expect(allowed ?? 0).toBeLessThan(machine);
  });
});
