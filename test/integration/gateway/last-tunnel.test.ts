/** The last tunnel of a target is sold once, however many ask for it at the same time. */
import { expect, test, vi } from "vitest";
import { openTarget } from "../../../src/gateway/upstream/open-target.ts";
import { defaultUpstreamOptions, type Engine } from "../../../src/gateway/upstream/upstream.ts";
import { PATIENT } from "./listener/secure-stage.ts";
import { head, openShop, stickAnswers, type Shop } from "./shop.ts";
import { onHead, RawClient, rawBackend } from "./stage.ts";
import { SETTLED } from "../../unit/payments/sale/paywall-stage.ts";

const SWITCHED =
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/** One tunnel may be open, and settlements wait until they are released. */
async function lastTunnel(first = SWITCHED) {
  const answers = [first];
  const origin = await rawBackend((socket) => {
    onHead(socket, () => void socket.write(answers.shift() ?? SWITCHED));
  });
  const shop = await openShop(origin, { upstream: { upgrades: 1 } });
  const settling = Promise.withResolvers<void>();
  shop.facilitator.onSettle = async () => {
    await settling.promise;
    return SETTLED;
  };
  return { shop, settle: settling.resolve };
}

function handshake({ port }: Shop, number: number): RawClient {
  const lines = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  ];
  return new RawClient(port, head("/socket", lines, "GET", { number }));
}

const POOR = { isValid: false, invalidReason: "insufficient_funds", payer: "" } as const;

/** Another buyer gets it, sooner or later. */
async function isForSale(shop: Shop): Promise<void> {
  await expect
    .poll(async () => {
      const next = handshake(shop, 2);
      const told = await Promise.race([next.until("HTTP/1.1 101"), next.closed]);
      return typeof told === "string";
    }, PATIENT)
    .toBe(true);
}

test("two who ask for the last tunnel at once: one pays and has it, and the other pays nothing", async () => {
  const { shop, settle } = await lastTunnel();
  const first = handshake(shop, 1);
  await expect.poll(() => shop.facilitator.settled.length, PATIENT).toBe(1);
  const second = await handshake(shop, 2).closed;
  expect(second.text).toContain("HTTP/1.1 503");
  settle();
  expect(await first.until("\r\n\r\n")).toContain("HTTP/1.1 101");
  expect(shop.facilitator.settled).toHaveLength(1);
  // It is taken as long as it is open, and for sale again after that.
  expect((await handshake(shop, 2).closed).text).toContain("HTTP/1.1 503");
  first.socket.destroy();
  await isForSale(shop);
});

test("one that was reserved at another target than the one that switched is for sale again", async () => {
  const origin = await rawBackend((socket) => {
    onHead(socket, () => void socket.write(SWITCHED));
  });
  const [asked, switching] = [1, 2].map((upgrades) =>
    openTarget({ ...defaultUpstreamOptions, origin, protocol: "http1", upgrades }),
  );
  if (asked === undefined || switching === undefined) throw new Error("two targets");
  const engine: Engine = {
    refusal: (...of) => asked.refusal(...of),
    forward: (exchange) => switching.forward(exchange),
    upgrade: (exchange) => switching.upgrade(exchange),
    close: async (signal) => {
      await Promise.all([asked, switching].map((each) => each.close(signal)));
    },
  };
  const shop = await openShop(origin, { engine });
  await handshake(shop, 1).until("HTTP/1.1 101");
  await handshake(shop, 2).until("HTTP/1.1 101");
});

test.each([
  [
    "is not paid",
    async (shop: Shop) => {
      shop.facilitator.onVerify = async () => POOR;
      expect((await handshake(shop, 1).closed).text).toContain("HTTP/1.1 402");
      shop.facilitator.onVerify = async () => ({ isValid: true, payer: "" });
    },
  ],
  [
    "is not paid, by a client that does not read so",
    async (shop: Shop) => {
      shop.facilitator.onVerify = async () => POOR;
      stickAnswers(shop.gateway);
      handshake(shop, 1).socket.pause();
      await expect.poll(() => shop.facilitator.verified.length, PATIENT).toBe(1);
      vi.restoreAllMocks();
      shop.facilitator.onVerify = async () => ({ isValid: true, payer: "" });
    },
  ],
  [
    "is left by its client",
    async (shop: Shop) => {
      const leaving = handshake(shop, 1);
      await expect.poll(() => shop.facilitator.settled.length, PATIENT).toBe(1);
      leaving.socket.destroy();
      await leaving.closed;
    },
  ],
])("one that %s is for sale again", async (_name, lose) => {
  const { shop, settle } = await lastTunnel();
  await lose(shop);
  settle();
  await isForSale(shop);
});

test("one whose handshake the backend refuses is for sale again", async () => {
  const refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
  const { shop, settle } = await lastTunnel(refusal);
  settle();
  expect((await handshake(shop, 1).closed).text).toContain("HTTP/1.1 403");
  await handshake(shop, 2).until("HTTP/1.1 101");
});
