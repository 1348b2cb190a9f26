/** Every case is played twice, before the backend itself and before the gateway, and compared. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { answering } from "./backend.ts";
import { answer, OVER_HTTP1, type Case } from "./case.ts";
import { answerCases } from "./cases/answers.ts";
import { refusedAnswers } from "./cases/refused-answers.ts";
import { refusedRequests, requestCases } from "./cases/requests.ts";
import { openSocket, requestBytes, type Ask } from "./client.ts";
import {
  arrivedText,
  expectedAtBackend,
  expectedAtClient,
  hasDate,
  hintsText,
  receivedText,
  type Protocol,
} from "./differences.ts";
import { Fronts } from "./fronts.ts";
import { MessageReader } from "./wire.ts";

const fronts = new Fronts();
beforeAll(() => fronts.open());
afterAll(() => fronts.close());

let played = 0;

function askOf({ ask }: Case, prefix = "/case"): Ask & { readonly path: string } {
  played += 1;
  const path = `${prefix}/${played}`;
  return { ...ask, target: `${path}${ask.query ?? ""}`, path };
}

async function compare(each: Case, protocol: Protocol): Promise<void> {
  const house = fronts.of(protocol);
  const ask = askOf(each);
  const seen = house.backend.play(ask.path, answering(each.answer, each.ends ? "close" : "keep"));
  const direct = await fronts.askDirectly(protocol, ask);
  const through = await fronts.ask(protocol, ask);
  const [plain, forwarded, ...others] = seen.requests;
  expect(others).toEqual([]);
  if (plain === undefined || forwarded === undefined) throw new Error("a request did not arrive");
  expect(arrivedText(forwarded)).toBe(expectedAtBackend(plain, protocol));
  const view = { protocol, isOld: ask.version === "1.0" };
  expect(receivedText(through, view, hasDate(direct))).toBe(expectedAtClient(direct, view));
  expect(hintsText(through, view)).toEqual(hintsText(direct, view));
  expect(house.backend.faults).toEqual([]);
}

function over(cases: readonly Case[], protocol: Protocol): (readonly [string, Case])[] {
  return cases
    .filter(({ only }) => only === undefined || only.includes(protocol))
    .map((each) => [each.name, each]);
}

describe.each(Fronts.protocols)("over %s", (protocol) => {
  test.each(over(requestCases, protocol))("a request arrives unharmed: %s", (_, each) =>
    compare(each, protocol),
  );

  test.each(over(answerCases, protocol))("an answer arrives unharmed: %s", (_, each) =>
    compare(each, protocol),
  );

  test.each(over(refusedRequests, protocol))("a request is refused: %s", async (_, each) => {
    const ask = askOf(each);
    const seen = fronts.of(protocol).backend.play(ask.path, answering(each.answer));
    const { startLine } = await fronts.ask(protocol, ask);
    expect(Number(startLine.split(" ")[1])).toBe(400);
    expect(seen.requests).toEqual([]);
  });

  test.each(over(refusedAnswers, protocol))("an answer is not passed on: %s", async (_, each) => {
    const ask = askOf(each);
    fronts.of(protocol).backend.play(ask.path, answering(each.answer, "close"));
    const { startLine } = await fronts.ask(protocol, ask);
    expect(Number(startLine.split(" ")[1])).toBe(502);
  });
});

test.each(OVER_HTTP1)(
  "over %s pipelined requests are answered in their order",
  async (protocol) => {
    const { backend, front } = fronts.of(protocol);
    const count = 20;
    const bodies: string[] = [];
    const done = Promise.withResolvers<void>();
    const reader = new MessageReader({
      kind: "response",
      onMessage: ({ content }) => {
        bodies.push(content.start.toString());
        if (bodies.length === count) done.resolve();
      },
    });
    const socket = openSocket(front);
    socket.on("data", (chunk) => reader.push(chunk));
    const expected = Array.from({ length: count }, (_, index) => `answer ${index}`);
    for (const [index, body] of expected.entries()) {
      backend.play(`/pipeline/${index}`, async ({ whole, write }) => {
        await whole;
        // The first ones take the longest.
        await pause(count - index);
        write(answer("200 OK", [], body));
      });
    }
    const asks = expected.map((_, index) => ({ method: "GET", target: `/pipeline/${index}` }));
    socket.write(asks.map((ask) => requestBytes(ask).head).join(""));
    await done.promise;
    expect(bodies).toEqual(expected);
    socket.destroy();
  },
);
