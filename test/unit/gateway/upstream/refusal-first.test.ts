/** An answer that sells nothing reaches its client only when that is stored. */
import { expect, it } from "vitest";
import { RefusalFirst } from "../../../../src/gateway/upstream/refusal-first.ts";
import { UNSTORED_SALE } from "../../../support/sale.ts";
import type { ClientController } from "../../../../src/gateway/upstream/upstream-client.ts";

function stage() {
  const told: string[] = [];
  const stored = Promise.withResolvers<void>();
  let asked = 0;
  const controller = {
    paused: false,
    pause: () => void (controller.paused = true),
    resume: () => void (controller.paused = false),
    abort: () => undefined,
  } as ClientController & { paused: boolean };
  const handler = new RefusalFirst(
    {
      onRequestStart: () => void told.push("request"),
      onInterim: (status) => void told.push(`interim ${status}`),
      onResponseStart: (_, status) => void told.push(`head ${status}`),
      onResponseData: (_, chunk) => void told.push(`data ${chunk.toString()}`),
      onResponseEnd: () => void told.push("end"),
      onResponseError: (_, error) => void told.push(`error ${error.message}`),
    },
    {
      ...UNSTORED_SALE,
      refused: () => {
        asked += 1;
        return stored.promise;
      },
    },
  );
  return { told, stored, controller, handler, asked: () => asked };
}

const whole = ({ handler, controller }: ReturnType<typeof stage>, status: number): void => {
  handler.onRequestStart(controller);
  handler.onInterim(103, []);
  handler.onResponseStart(controller, status, [], "");
  handler.onResponseData(controller, Buffer.from("a"));
  handler.onResponseEnd(controller, []);
};

it.each([200, 204, 302, 399])("an answer of %i is told as it comes", (status) => {
  const at = stage();
  whole(at, status);
  expect(at.told).toEqual(["request", "interim 103", `head ${status}`, "data a", "end"]);
  expect(at.asked()).toBe(0);
  expect(at.controller.paused).toBe(false);
});

it.each([400, 402, 404, 500, 503])("one of %i is told in its order, afterwards", async (status) => {
  const at = stage();
  whole(at, status);
  expect(at.told).toEqual(["request", "interim 103"]);
  expect(at.controller.paused).toBe(true);
  at.stored.resolve();
  await expect.poll(() => at.told.length).toBe(5);
  expect(at.told.slice(2)).toEqual([`head ${status}`, "data a", "end"]);
  expect(at.controller.paused).toBe(false);
  expect(at.asked()).toBe(1);
});

it("so is one that breaks off meanwhile, and what comes behind goes straight on", async () => {
  const at = stage();
  at.handler.onResponseStart(at.controller, 503, [], "");
  at.handler.onResponseError(null, new Error("reset"));
  expect(at.told).toEqual([]);
  at.stored.resolve();
  await expect.poll(() => at.told).toEqual(["head 503", "error reset"]);
  at.handler.onResponseData(at.controller, Buffer.from("b"));
  expect(at.told.at(-1)).toBe("data b");
});
