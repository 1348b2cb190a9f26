import { describe, expect, test } from "vitest";
import { CatalogueWords, readCatalogueWord } from "../../../src/facilitator/catalogue-word.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { exampleRequest } from "../payments/settlement/example-request.ts";
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

  test("has no control characters, and what it says of other extensions is told where they were refused", () => {
    const log: Record<string, unknown>[] = [];
    const destination = { write: (line: string) => void log.push(JSON.parse(line)) };
    const logger = createLogger({ level: "info", format: "json", destination });
    const words = new CatalogueWords("host", logger, { now: () => 0 });
    const many = Array.from({ length: 20 }, (_, index) => [`e${index}`, { status: "rejected" }]);
    const said = {
      bazaar: { status: "rejected", rejectedReason: "no\u202e \u009bdescription" },
      good: { status: "success" },
      odd: "rejected",
      "gas\u001b": { status: "failed", error: `\u0007${"r".repeat(1_000)}` },
      ...Object.fromEntries(many),
    };
    words.hear(["extension-responses", header(said)], exampleRequest.paymentRequirements);
    words.hear(["extension-responses", header(said)], exampleRequest.paymentRequirements);
    expect(words.heard[0]?.reason).toBe("no\ufffd \ufffddescription");
    const told = log.map(({ extension, status, reason }) => [extension, status, reason]);
    expect(told).toEqual([
      ["gas\ufffd", "failed", `\ufffd${"r".repeat(199)}`],
      ...["e0", "e1", "e2", "e3", "e4"].map((name) => [name, "rejected", undefined]),
      [undefined, "rejected", "no\ufffd \ufffddescription"],
    ]);
  });

  test("is remembered for each request, the last one, and for no more of them than fit", () => {
    let nowMs = 0;
    const time = { now: () => (nowMs += 1) };
    const words = new CatalogueWords(
      "host",
      createLogger({ level: "silent", format: "json" }),
      time,
    );
    const say = (path: string, status: string, method = "GET") => {
      const lines = ["content-type", "a", "Extension-Responses", header({ bazaar: { status } })];
      const outputSchema = { input: { method } };
      const resource = `https://api.example.com${path}`;
      words.hear(lines, { ...exampleRequest.paymentRequirements, resource, outputSchema });
    };
    say("/a?secret=1", "processing");
    say("/b", "processing");
    say("/a?secret=2", "rejected");
    say("/a", "success", "POST");
    expect(words.heard).toMatchObject([
      { resource: "https://api.example.com/b", status: "processing", heardMs: expect.any(Number) },
      { resource: "https://api.example.com/a", method: "GET", status: "rejected" },
      { resource: "https://api.example.com/a", method: "POST", status: "success" },
    ]);
    for (let id = 0; id < 1_500; id += 1) say(`/reports/${id}`, "success");
    expect(words.heard).toHaveLength(1_000);
    expect(words.heard.at(-1)).toMatchObject({ resource: "https://api.example.com/reports/1499" });
  });
});
