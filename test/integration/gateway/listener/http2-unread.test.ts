/** What clients of HTTP/2 that take nothing may have of our memory. */
import { once } from "node:events";
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { describe, expect, onTestFinished, test } from "vitest";
import type { InboundRequest, InboundResponse } from "../../../../src/gateway/message/inbound.ts";
import { UnreadAnswers } from "../../../../src/gateway/listener/unread-answers.ts";
import { openSessions, PATIENT } from "./secure-stage.ts";

/** One for all. */
const DOCUMENT = Buffer.alloc(700_000, "a document. ");
/** Each answer's own. */
const PAGE = "p".repeat(14_000);
/** Of each of them so many may wait on one connection: 256 KiB, and the one that is beyond. */
const DOCUMENTS_WAITING = 17;
const PAGES_WAITING = 19;

function serve(isPressed = false): Promise<number> {
  const answer = (request: InboundRequest, response: InboundResponse): void => {
    response.writeHead(200, []);
    response.end(request.url === "/page" ? PAGE : DOCUMENT);
  };
  return openSessions(answer, isPressed);
}

async function open(port: number, initialWindowSize: number): Promise<ClientHttp2Session> {
  const settings = { initialWindowSize };
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false, settings });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  await once(session, "connect");
  return session;
}

interface Asked {
  readonly stream: ClientHttp2Stream;
  readonly body: Buffer[];
  status?: number;
  endedWith?: number;
}

function ask(session: ClientHttp2Session, path: string): Asked {
  const stream = session.request({ ":path": path });
  const asked: Asked = { stream, body: [] };
  stream.on("response", (headers) => void (asked.status = Number(headers[":status"])));
  stream.on("data", (chunk: Buffer) => asked.body.push(chunk));
  stream.on("close", () => void (asked.endedWith = stream.rstCode));
  stream.on("error", () => {});
  return asked;
}

/** Those that were answered, and those that were not taken. */
async function flood(session: ClientHttp2Session, path: string, count: number) {
  const all = Array.from({ length: count }, () => ask(session, path));
  const isTold = ({ status, endedWith }: Asked): boolean =>
    status !== undefined || endedWith !== undefined;
  await expect.poll(() => all.every(isTold), PATIENT).toBe(true);
  const refused = all.filter(({ endedWith }) => endedWith !== undefined);
  return { waiting: all.filter(({ endedWith }) => endedWith === undefined), refused };
}

describe("a connection that takes nothing", () => {
  test.each([
    ["/document", DOCUMENTS_WAITING, DOCUMENT.toString()],
    ["/page", PAGES_WAITING, PAGE],
  ])("gets a few answers of %s, then none before it has taken some", async (path, most, whole) => {
    const session = await open(await serve(), 0);
    const { waiting, refused } = await flood(session, path, 60);
    expect(waiting).toHaveLength(most);
    for (const { endedWith } of refused) {
      expect(endedWith).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    }
    session.settings({ initialWindowSize: 1_000_000 });
    await expect.poll(() => waiting.every((each) => each.endedWith === 0), PATIENT).toBe(true);
    for (const { body } of waiting) expect(Buffer.concat(body).toString() === whole).toBe(true);
    const late = ask(session, path);
    await expect.poll(() => late.endedWith, PATIENT).toBe(0);
    expect(Buffer.concat(late.body).toString() === whole).toBe(true);
  });

  test("and breaks its streams off has nothing of it any more", async () => {
    const session = await open(await serve(), 0);
    const { waiting } = await flood(session, "/document", 30);
    for (const { stream } of waiting) stream.close(constants.NGHTTP2_CANCEL);
    await expect
      .poll(() => waiting.every((each) => each.endedWith !== undefined), PATIENT)
      .toBe(true);
    const again = await flood(session, "/document", 5);
    expect(again.refused).toEqual([]);
  });
});

test("a connection that begins while nearly all places are taken gets fewer streams", async () => {
  for (const [isPressed, streams] of [
    [false, 100],
    [true, 10],
  ] as const) {
    const session = await open(await serve(isPressed), 0);
    await expect.poll(() => session.remoteSettings.maxConcurrentStreams, PATIENT).toBe(streams);
  }
});

test("where all together have too much the connection goes that has taken nothing for longest", () => {
  const cut: string[] = [];
  const unread = new UnreadAnswers({ sessionBytes: 100, bytes: 250 });
  const [first, second, third] = ["first", "second", "third"].map((name) => {
    return unread.open(() => void cut.push(name));
  });
  first!.queued(90);
  second!.queued(90);
  first!.taken(10);
  third!.queued(70);
  expect(cut).toEqual([]);
  third!.queued(20);
  expect(cut).toEqual(["second"]);
  // Its streams end with it.
  second!.taken(90);
  first!.queued(80);
  expect(cut).toEqual(["second"]);
  third!.queued(10);
  expect(cut).toEqual(["second", "first"]);
  expect(third!.bytes).toBe(100);
  expect(third!.isFull).toBe(false);
  third!.queued(1);
  expect(third!.isFull).toBe(true);
});
