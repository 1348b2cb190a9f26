import { describe, expect, test } from "vitest";
import { readCatalogueWord } from "../../../src/facilitator/catalogue-word.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { stage, success, settle, verify } from "./remote-stage.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";

function header(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

describe("a facilitator's word about its catalogue", () => {
  test("is read with its reason", () => {
    expect(readCatalogueWord(header({ bazaar: { status: "processing" } }))).toEqual({
      status: "processing",
      reason: undefined,
    });
    const rejected = { bazaar: { status: "rejected", rejectedReason: "no description" } };
    expect(readCatalogueWord(header(rejected))).toEqual({
      status: "rejected",
      reason: "no description",
    });
  });

  test.each([
    undefined,
    ["a", "b"],
    "",
    "%%%",
    header(null),
    header({ bazaar: "success" }),
    header({ bazaar: { status: 1 } }),
    header({ other: { status: "success" } }),
    "A".repeat(9_000),
  ])("is none where it cannot be read: %#", (value) => {
    expect(readCatalogueWord(value)).toBeUndefined();
  });

  test("is clipped", () => {
    const long = { bazaar: { status: "s".repeat(1_000), reason: "r".repeat(1_000) } };
    expect(readCatalogueWord(header(long))).toEqual({
      status: "s".repeat(40),
      reason: "r".repeat(200),
    });
  });

  test("goes into the log when it is new, once in a while, and changes no answer", async () => {
    const log: Record<string, unknown>[] = [];
    const destination = { write: (line: string) => void log.push(JSON.parse(line)) };
    const logger = createLogger({ level: "info", format: "json", destination });
    let nowMs = 1_000_000;
    const said = { bazaar: { status: "rejected", rejectedReason: "no description" } };
    const at = await stage(
      ({ url }) => ({
        raw: (response) => {
          response.setHeader("EXTENSION-RESPONSES", header(said));
          response.writeHead(200, { "Content-Type": "application/json" });
          response.end(JSON.stringify(url === "/settle" ? success : { isValid: true }));
        },
      }),
      {
        telemetry: { logger, metrics: new Metrics("test") },
        time: { ...systemTime, now: () => nowMs },
      },
    );
    expect(await verify(at)).toMatchObject({ isValid: true });
    expect(await settle(at)).toMatchObject({ success: true });
    const words = () => log.filter(({ status }) => status !== undefined);
    expect(words()).toMatchObject([
      {
        status: "rejected",
        reason: "no description",
        msg: "the facilitator does not list a route",
      },
    ]);
    nowMs += 3_600_000;
    await settle(at);
    expect(words()).toHaveLength(2);
  });
});
