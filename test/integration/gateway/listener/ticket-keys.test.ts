/** Sessions that clients take up again, and until when. */
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { newTicketKeys, TICKET_KEYS_MS } from "../../../../src/gateway/listener/ticket-keys.ts";
import { SECOND } from "../../../support/listener-tls.ts";
import { backend } from "../stage.ts";
import { openSecureShop, writePair, type SecureShop } from "./secure-stage.ts";

const VERSIONS = ["TLSv1.2", "TLSv1.3"] as const;

async function connected(port: number, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options });
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve).once("error", reject);
  });
  return socket;
}

/** A session that the server there has agreed on. */
async function sessionOf(port: number, maxVersion: (typeof VERSIONS)[number]): Promise<Buffer> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, maxVersion });
  onTestFinished(() => void socket.destroy());
  return new Promise((resolve, reject) => {
    socket.once("session", resolve).once("error", reject);
  });
}

async function shop(): Promise<SecureShop> {
  return openSecureShop(await backend((_request, response) => void response.end("goods")));
}

describe.each(VERSIONS)("a session of %s", (version) => {
  const isTakenUp = async (port: number, session: Buffer): Promise<boolean> => {
    return (await connected(port, { session, maxVersion: version })).isSessionReused();
  };

  test("is taken up by whoever was told the same keys, and by nobody once there are others", async () => {
    const [one, other] = await Promise.all([shop(), shop()]);
    const before = await sessionOf(one.port, version);
    expect(await isTakenUp(one.port, before)).toBe(true);
    expect(await isTakenUp(other.port, before)).toBe(false);

    const keys = newTicketKeys();
    for (const { listener } of [one, other]) listener.tellTicketKeys(keys);
    expect(await isTakenUp(one.port, before)).toBe(false);
    const after = await sessionOf(one.port, version);
    expect(await isTakenUp(one.port, after)).toBe(true);
    expect(await isTakenUp(other.port, after)).toBe(true);
  });

  test("is taken up under the keys of now when the certificate has changed", async () => {
    const { listener, port, folder } = await shop();
    listener.tellTicketKeys(newTicketKeys());
    const session = await sessionOf(port, version);
    await writePair(folder, SECOND);
    expect(await listener.reloadCertificate()).toBe(true);
    expect(await isTakenUp(port, session)).toBe(true);
  });

  test("is over with the interval where nobody tells keys", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const { port } = await shop();
    const session = await sessionOf(port, version);
    vi.advanceTimersByTime(TICKET_KEYS_MS - 1);
    expect(await isTakenUp(port, session)).toBe(true);
    vi.advanceTimersByTime(1);
    expect(await isTakenUp(port, session)).toBe(false);
    expect(await isTakenUp(port, await sessionOf(port, version))).toBe(true);
  });
});
