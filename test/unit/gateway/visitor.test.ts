/** What may happen to the socket of a handshake while nobody else listens to it. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { helpOf } from "../../../src/gateway/answers.ts";
import { UpgradeVisitor, VisitIds } from "../../../src/gateway/visitor.ts";

describe("a handshake whose client resets its connection", () => {
  test("is gone, and throws at nobody", () => {
    const socket = new Socket();
    const visitor = new UpgradeVisitor(new IncomingMessage(socket), socket, {
      ids: new VisitIds(),
      told: { cors: "off", help: helpOf(null) },
    });
    expect(visitor.isGone()).toBe(false);
    expect(() => socket.emit("error", new Error("read ECONNRESET"))).not.toThrow();
    expect(visitor.isGone()).toBe(true);
  });
});
