/** What is asked of a node over its websocket, and what it tells. */
import { describe, expect, test } from "vitest";
import {
  agreeing,
  lastNumber,
  openChannel,
  SLOW,
  startScriptedPubsub,
  type ScriptedPubsub,
} from "./scripted-pubsub.ts";
import { eventually } from "./tracking.ts";

const asked = ({ questions }: ScriptedPubsub, method: string) =>
  questions.filter((question) => question.method === method).map(({ params }) => params);

describe("a subscription", () => {
  test("is asked for at the commitment, told once, and then over", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server, SLOW);
    const { channel, notified, subscribed } = opened;
    expect(channel.state("a")).toBe("none");
    channel.follow("a");
    expect(channel.state("a")).toBe("starting");
    await eventually(() => channel.state("a")).toBe("live");
    expect(asked(server, "signatureSubscribe")).toEqual([["a", { commitment: "confirmed" }]]);
    expect(subscribed).toEqual(["a"]);
    server.notify(1_001);
    await eventually(() => notified).toEqual(["a"]);
    expect(channel.state("a")).toBe("none");
    server.notify(1_001);
    channel.follow("b");
    await eventually(() => channel.state("b")).toBe("live");
    expect(notified).toEqual(["a"]);
    expect(server.clients).toHaveLength(1);
  });

  test("is asked for once, however often it is wanted", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server);
    const { channel } = opened;
    for (let count = 0; count < 3; count += 1) channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    channel.follow("a");
    channel.follow("b");
    await eventually(() => channel.state("b")).toBe("live");
    expect(asked(server, "signatureSubscribe").map(([name]) => name)).toEqual(["a", "b"]);
  });

  test("that nobody wants any more is ended at the node, answered or not", async () => {
    const late: (() => void)[] = [];
    await using server = await startScriptedPubsub((question, client) => {
      if (question.params[0] !== "late") return agreeing(question, client);
      late.push(() => client.send(JSON.stringify({ id: question.id, result: 7 })));
      return undefined;
    });
    await using opened = openChannel(server);
    const { channel } = opened;
    channel.follow("a");
    channel.follow("late");
    await eventually(() => late.length).toBe(1);
    await eventually(() => channel.state("a")).toBe("live");
    channel.drop("a", false);
    channel.drop("late", false);
    late[0]?.();
    await eventually(() => asked(server, "signatureUnsubscribe")).toEqual([[1_001], [7]]);
  });

  test("that nobody has asked for in a minute is given up", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server, 200);
    opened.channel.follow("a");
    await eventually(() => asked(server, "signatureUnsubscribe").length).toBe(1);
    expect(opened.channel.state("a")).toBe("none");
  });

  test("beyond the limit is not asked for", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server, 1);
    const { channel } = opened;
    for (let count = 0; count < 2_001; count += 1) channel.follow(`s${count}`);
    await eventually(() => channel.state("s1999")).toBe("live");
    expect(channel.state("s2000")).toBe("none");
  });

  test("that the node refuses is asked for again with the next wish, and told once", async () => {
    let refusals = 2;
    await using server = await startScriptedPubsub((question, client) => {
      refusals -= 1;
      if (refusals < 0) return agreeing(question, client);
      return { error: { code: -32_600, message: "Subscription refused. Node limit reached" } };
    });
    await using opened = openChannel(server);
    const { channel, troubles } = opened;
    // Wished for again and again: on a busy machine nothing tells a refusal from an answer that is late.
    const wished = (): string => {
      channel.follow("a");
      return channel.state("a");
    };
    await eventually(wished).toBe("live");
    expect(server.questions).toHaveLength(3);
    expect(troubles).toEqual([
      `${server.host}: its websocket refused a subscription; transactions are confirmed by polling meanwhile`,
    ]);
  });
});

describe("a connection", () => {
  test("that breaks is made again, with all that is wanted", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server);
    const { channel, notified } = opened;
    channel.follow("a");
    channel.follow("b");
    await eventually(() => channel.state("b")).toBe("live");
    channel.drop("a", false);
    server.clients[0]?.terminate();
    await eventually(() => server.clients.length).toBe(2);
    await eventually(() => channel.state("b")).toBe("live");
    expect(asked(server, "signatureSubscribe").map(([name]) => name)).toEqual(["a", "b", "b"]);
    server.notify(lastNumber(server));
    await eventually(() => notified).toEqual(["b"]);
  });

  test("that is dead is noticed, and made again", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server);
    const { channel, troubles } = opened;
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    // Nothing is read there any more, no ping either, and the connection stays.
    server.clients[0]?.pause();
    await eventually(() => server.clients.length).toBeGreaterThan(1);
    await eventually(() => channel.state("a")).toBe("live");
    // It had held for longer than a broken one does: no matter for the log.
    expect(troubles).toEqual([]);
  });

  test("that answers pings and nothing else is given up", async () => {
    await using server = await startScriptedPubsub(() => undefined);
    await using opened = openChannel(server);
    const { channel } = opened;
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("none");
    await eventually(() => server.clients.length).toBeGreaterThan(1);
  });

  test("that leaves questions unanswered is broken, also where nobody wants to hear any more", async () => {
    await using server = await startScriptedPubsub(() => undefined);
    await using opened = openChannel(server, 100);
    const { channel, troubles } = opened;
    channel.follow("a");
    await eventually(() => server.questions.length).toBe(1);
    channel.drop("a", false);
    await eventually(() => troubles).toHaveLength(1);
    expect(troubles[0]).toContain("its websocket does not answer");
  });

  test("that answers nothing is not asked without end", async () => {
    await using server = await startScriptedPubsub(() => undefined);
    await using opened = openChannel(server, 0.1);
    const { channel } = opened;
    channel.follow("first");
    await eventually(() => server.questions.length).toBe(1);
    for (let count = 0; count < 3_000; count += 1) {
      channel.follow(`s${count}`);
      channel.drop(`s${count}`, false);
    }
    // Its own goodbye comes after all that was asked.
    const closed = new Promise((resolve) => {
      server.clients[0]?.on("close", resolve);
    });
    await channel.close();
    await closed;
    expect(server.questions).toHaveLength(2_000);
  });

  test("that did not tell of three transactions in a row is given up", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server, 1);
    const { channel, troubles } = opened;
    for (const name of ["a", "b", "c", "d"]) {
      channel.follow(name);
      await eventually(() => channel.state(name)).toBe("live");
      if (name !== "d") channel.drop(name, name !== "a");
    }
    expect(server.clients).toHaveLength(1);
    channel.drop("d", true);
    await eventually(() => troubles).toHaveLength(1);
    expect(troubles[0]).toContain("its websocket does not tell of transactions");
    channel.follow("e");
    await eventually(() => server.clients.length).toBe(2);
  });

  test("that told of one has not missed any", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server, 1);
    const { channel, notified } = opened;
    for (const name of ["a", "b", "told", "c", "d"]) {
      channel.follow(name);
      await eventually(() => channel.state(name)).toBe("live");
      if (name === "told") server.notify(lastNumber(server));
      else channel.drop(name, true);
    }
    await eventually(() => notified).toEqual(["told"]);
    channel.follow("e");
    await eventually(() => channel.state("e")).toBe("live");
    expect(server.clients).toHaveLength(1);
  });

  test("is closed after an idle minute, and opened for the next wish", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server, 100);
    const { channel, troubles } = opened;
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    channel.drop("a", false);
    const closed = new Promise((resolve) => {
      server.clients[0]?.on("close", resolve);
    });
    await closed;
    channel.follow("b");
    await eventually(() => channel.state("b")).toBe("live");
    expect(troubles).toEqual([]);
  });

  test.each<[string, unknown]>([
    ["no JSON", "{"],
    ["a list", []],
    ["nothing", null],
    ["another's answer", { id: 77, result: 1 }],
    ["an answer to nobody", { id: "1", result: 1 }],
    ["a notification of nothing", { method: "signatureNotification" }],
    [
      "a notification of a stranger",
      { method: "signatureNotification", params: { subscription: 5 } },
    ],
    [
      "a notification without a number",
      { method: "signatureNotification", params: { subscription: "1" } },
    ],
    ["another notification", { method: "slotNotification", params: { subscription: 1_001 } }],
  ])("passes over %s", async (_title, message) => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server);
    const { channel, notified } = opened;
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    server.tell(message);
    server.notify(1_001);
    await eventually(() => notified).toEqual(["a"]);
    expect(server.clients).toHaveLength(1);
  });

  test("takes no message of a size that none has", async () => {
    await using server = await startScriptedPubsub();
    await using opened = openChannel(server);
    const { channel, notified } = opened;
    channel.follow("a");
    await eventually(() => channel.state("a")).toBe("live");
    const params = { subscription: 1_001, result: "x".repeat(65 * 1_024) };
    server.tell({ method: "signatureNotification", params });
    await eventually(() => server.clients.length).toBe(2);
    expect(notified).toEqual([]);
  });

  test("shows its key to the node and to nobody else", async () => {
    await using server = await startScriptedPubsub(() => ({ error: { message: "s3cretkey" } }));
    const url = `http://user:s3cretkey@${server.host}/v2/s3cretkey?api-key=s3cretkey`;
    await using opened = openChannel({ url, host: server.host });
    const { channel, troubles } = opened;
    channel.follow("a");
    await eventually(() => troubles.length).toBe(1);
    const [handshake] = server.handshakes;
    expect(handshake?.url).toBe("/v2/s3cretkey?api-key=s3cretkey");
    expect(handshake?.headers.authorization).toBe(
      `Basic ${Buffer.from("user:s3cretkey").toString("base64")}`,
    );
    expect(troubles.join()).not.toContain("s3cretkey");
  });
});
