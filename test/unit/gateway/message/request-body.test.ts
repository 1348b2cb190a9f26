import { createHash } from "node:crypto";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  hashBody,
  readBodyHash,
  RequestBody,
} from "../../../../src/gateway/message/request-body.ts";

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");

/** A request whose body the test sends: a text is a part of it, null its end. */
function incoming(headers: Readonly<Record<string, string>> = { "transfer-encoding": "chunked" }) {
  const source = new IncomingMessage(new Socket());
  Object.assign(source.headers, headers);
  return { source, send: (part: string | null) => void source.push(part) };
}

describe("the hash of a body on its way", () => {
  it("is there when all of it has been read, and not before", async () => {
    const { source, send } = incoming();
    const body = new RequestBody(source, 100, true);
    body.resume();
    send("one");
    send("two");
    await turn();
    expect(body.hash).toBeNull();
    send(null);
    await turn();
    expect(body.hash).toBe(sha("onetwo"));
  });

  it("is not that of a body whose rest was thrown away", async () => {
    const { source, send } = incoming();
    const body = new RequestBody(source, 100, true);
    body.resume();
    send("one");
    await turn();
    body.destroy();
    send("two");
    send(null);
    await turn();
    expect([source.readableEnded, body.hash]).toEqual([true, null]);
  });

  it("is not taken where nobody asks for it", async () => {
    const { source, send } = incoming();
    const body = new RequestBody(source, 100, false);
    body.resume();
    send("one");
    send(null);
    await turn();
    expect(body.hash).toBeNull();
  });
});

describe("the hash of a body that is read for it", () => {
  it.each([
    ["at the limit", "1234", sha("1234")],
    ["over the limit", "12345", null],
    ["that is empty", "", sha("")],
  ])("is had of one %s", async (_name, text, hash) => {
    const { source, send } = incoming();
    const reading = readBodyHash(source, 4);
    if (text !== "") send(text);
    send(null);
    expect(await reading).toBe(hash);
  });

  it("is that of nothing where no body is announced", async () => {
    expect(await readBodyHash(incoming({}).source, 4)).toBe(hashBody(null));
    expect(await readBodyHash(incoming({ "content-length": "0" }).source, 4)).toBe(sha(""));
  });

  it("is not had of one that says it is too large, or whose client has left", async () => {
    expect(await readBodyHash(incoming({ "content-length": "5" }).source, 4)).toBeNull();
    const { source, send } = incoming();
    const reading = readBodyHash(source, 4);
    send("12");
    await turn();
    source.destroy();
    expect(await reading).toBeNull();
    expect(await readBodyHash(source, 4)).toBeNull();
  });
});
