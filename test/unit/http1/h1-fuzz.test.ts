/**
 * Thousands of answers that a backend might send, right and wrong, read by our client, by undici's and by that
 * of node:http. Where all take an answer they take the same one; where they differ, ours refuses, by a rule
 * that has a name. A million of them: `node test/unit/http1/fuzz.ts`; here more with
 * `COINSLOT_FUZZ_RUNS`, others with `COINSLOT_FUZZ_SEED`.
 */
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { onHead, rawBackend } from "../../integration/gateway/stage.ts";
import { STRICTER, describeCase, problemOf, ruleOf, same } from "./differential.ts";
import { mutatedAnswer } from "./mutated-answers.ts";
import { ask, openPool, turns } from "./pool-stage.ts";
import { readOurs, type OurReading } from "./reading.ts";

const SEED = Number(process.env["COINSLOT_FUZZ_SEED"] ?? "1");
const RUNS = Number(process.env["COINSLOT_FUZZ_RUNS"] ?? "1500");
/** Answers that are read at the same time. */
const AT_ONCE = 64;
/** How long the slowest machine takes for one, milliseconds. */
const PATIENCE_MS = 40;
const TIMEOUT_MS = 20_000 + RUNS * PATIENCE_MS;
/** One answer of so many is sent over a real socket, too. */
const SOCKET_SHARE = 10;
/** Disagreements told before the run is given up. */
const MAX_TOLD = 5;

async function compareAll(): Promise<{ problems: string[]; told: Map<string, number> }> {
  const problems: string[] = [];
  const told = new Map<string, number>();
  let next = SEED;
  const work = async (): Promise<void> => {
    while (next < SEED + RUNS && problems.length < MAX_TOLD) {
      const seed = next;
      next += 1;
      const problem = await problemOf(seed, told);
      if (problem !== null) problems.push(describeCase(seed, problem));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { problems, told };
}

describe("whatever a backend answers", () => {
  test(
    "three readers take the same answer, or ours refuses by a rule",
    { timeout: TIMEOUT_MS },
    async () => {
      const { problems, told } = await compareAll();
      expect(problems.join("\n")).toBe("");
      // The answers are near enough to valid ones, and break every rule that they are made to break.
      expect(told.get("taken")).toBeGreaterThan(RUNS * 0.4);
      for (const rule of ["broken", "field-name", "field-value", ...Object.keys(STRICTER)]) {
        expect(told.get(rule) ?? 0, rule).toBeGreaterThan(0);
      }
    },
  );

  test("it does not matter how the bytes are cut", { timeout: TIMEOUT_MS }, () => {
    for (let seed = SEED; seed < SEED + RUNS; seed += 1) {
      const answer = mutatedAnswer(seed);
      const whole = Buffer.concat(answer.pieces);
      const bytes = [...whole].map((byte) => Buffer.of(byte));
      const readings = [[whole], bytes].map((pieces) => outcome(readOurs({ ...answer, pieces })));
      const expected = outcome(readOurs(answer));
      for (const reading of readings) {
        if (!same(reading, expected)) {
          throw new Error(describeCase(seed, `${JSON.stringify(reading)} in other pieces`));
        }
      }
    }
  });

  test(
    "a connection is used again only where every byte was the answer's",
    { timeout: TIMEOUT_MS },
    () => {
      let reused = 0;
      for (let seed = SEED; seed < SEED + RUNS; seed += 1) {
        const answer = mutatedAnswer(seed);
        const first = readOurs(answer);
        if (!first.isReusable) continue;
        reused += 1;
        // One byte less is half an answer, and one more is too much.
        const whole = Buffer.concat(answer.pieces);
        const less = readOurs({ ...answer, pieces: [whole.subarray(0, -1)] });
        const more = readOurs({ ...answer, pieces: [Buffer.concat([whole, Buffer.from("\r")])] });
        if (less.read !== null || more.read === null || more.isReusable) {
          throw new Error(describeCase(seed, "where the answer ends is not certain"));
        }
      }
      expect(reused).toBeGreaterThan(RUNS / 10);
    },
  );

  test("it is the same over real sockets", { timeout: TIMEOUT_MS }, async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, (head) => {
        const { pieces } = mutatedAnswer(Number(/ \/(\d+) /.exec(head)?.[1]));
        void sendPieces(socket, pieces);
      });
    });
    const pool = openPool(origin, { connections: AT_ONCE, queue: AT_ONCE });
    const problems: string[] = [];
    let next = SEED;
    const work = async (): Promise<void> => {
      while (next < SEED + RUNS / SOCKET_SHARE) {
        const answer = mutatedAnswer(next);
        next += 1;
        // What a reset leaves of an answer is not certain.
        if (answer.ending === "reset") continue;
        const expected = outcome(readOurs(answer));
        const { method, seed } = answer;
        const course = await ask(pool, { method, path: `/${seed}`, fresh: true });
        const { status, statusText, lines, body, trailers } = course;
        const read = { status, statusText, lines, body, trailers };
        const got = course.error === null ? { read } : { fault: ruleOf(course.error) };
        if (same(got, { ...expected, isReusable: undefined })) continue;
        problems.push(describeCase(answer.seed, JSON.stringify({ got, expected })));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(problems.slice(0, MAX_TOLD).join("\n")).toBe("");
  });

  test("the next request gets its own answer", { timeout: TIMEOUT_MS }, async () => {
    const origin = await rawBackend((socket) => {
      let giveUp: NodeJS.Timeout | undefined;
      onHead(socket, (request) => {
        const [, path = ""] = request.split(" ");
        clearTimeout(giveUp);
        if (path.startsWith("/own")) {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`);
        } else {
          socket.write(Buffer.concat(mutatedAnswer(Number(path.slice(1))).pieces));
          // Many of them have no end.
          giveUp = setTimeout(() => socket.destroy(), 5);
        }
      });
    });
    let [next, kept] = [SEED, 0];
    const problems: string[] = [];
    const work = async (): Promise<void> => {
      const pool = openPool(origin, { connections: 1, queue: 0 });
      while (next < SEED + RUNS / SOCKET_SHARE) {
        const { seed, method } = mutatedAnswer(next);
        next += 1;
        await ask(pool, { method, path: `/${seed}` });
        await turns(2);
        kept += pool.counts.idle;
        const course = await ask(pool, { path: `/own${seed}` });
        if (course.fault !== null || course.body !== `/own${seed}`) {
          problems.push(describeCase(seed, `${course.fault} ${course.body}`));
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(problems.slice(0, MAX_TOLD).join("\n")).toBe("");
    expect(kept).toBeGreaterThan(RUNS / SOCKET_SHARE / 10);
  });
});

/** As they were cut, as far as the kernel lets it be so; then the end of the connection. */
async function sendPieces(socket: Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise((resolve) => void setImmediate(resolve));
  }
  socket.end();
}

function outcome({ read, fault, isReusable }: OurReading): object {
  return read === null ? { fault: ruleOf(fault) } : { read, isReusable };
}
