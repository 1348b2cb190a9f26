/** A websocket server that answers subscriptions as a test tells it to, and a channel to it. */
import { createServer, type IncomingMessage } from "node:http";
import { WebSocketServer, type WebSocket } from "ws";
import { PubsubChannel } from "../../../../src/mechanism/solana/pubsub-channel.ts";
import { drain, listen } from "../../../../src/gateway/listener/listener.ts";
import { hurriedTime } from "./tracking.ts";

export interface PubsubQuestion {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

export interface ScriptedPubsub extends AsyncDisposable {
  /** The HTTP URL of the endpoint that the websocket belongs to. */
  readonly url: string;
  readonly host: string;
  /** Connections that were opened so far, the newest last, and their handshakes. */
  readonly clients: readonly WebSocket[];
  readonly handshakes: readonly IncomingMessage[];
  /** Everything that was asked, on whichever connection. */
  readonly questions: readonly PubsubQuestion[];
  /** Tells the newest client. */
  tell(message: unknown): void;
  /** Tells it that a subscription has come to its end. */
  notify(subscription: unknown): void;
}

/** A second of patience takes a twentieth. */
const HURRY = 20;
/** Slow enough that no limit of time is met, however slow the machine is. */
export const SLOW = 0.2;

export interface OpenedChannel extends AsyncDisposable {
  readonly channel: PubsubChannel;
  readonly notified: readonly string[];
  readonly subscribed: readonly string[];
  readonly troubles: readonly string[];
}

export function openChannel(
  { url, host }: Pick<ScriptedPubsub, "url" | "host">,
  hurry = HURRY,
): OpenedChannel {
  const notified: string[] = [];
  const subscribed: string[] = [];
  const troubles: string[] = [];
  const channel = new PubsubChannel({
    host,
    httpUrl: url,
    commitment: "confirmed",
    time: hurriedTime(hurry),
    onNotified: (signature) => notified.push(signature),
    onSubscribed: (signature) => subscribed.push(signature),
    onTrouble: (message) => troubles.push(message),
  });
  return {
    channel,
    notified,
    subscribed,
    troubles,
    [Symbol.asyncDispose]: () => channel.close(),
  };
}

type Answer = (question: PubsubQuestion, client: WebSocket) => unknown;

/** Takes every subscription, and numbers it by the question. */
export const agreeing: Answer = ({ id }) => ({ result: id + 1_000 });

/** `answer` gives what the answer holds beside its id; undefined is no answer. */
export async function startScriptedPubsub(answer: Answer = agreeing): Promise<ScriptedPubsub> {
  const http = createServer((_, response) => response.writeHead(405).end());
  const websockets = new WebSocketServer({ server: http });
  const clients: WebSocket[] = [];
  const handshakes: IncomingMessage[] = [];
  const questions: PubsubQuestion[] = [];
  websockets.on("connection", (client, handshake) => {
    clients.push(client);
    handshakes.push(handshake);
    client.on("error", () => client.terminate());
    client.on("message", (data) => {
      const text = Buffer.isBuffer(data) ? data.toString("utf8") : "";
      const question = JSON.parse(text) as PubsubQuestion;
      questions.push(question);
      const body = answer(question, client);
      if (typeof body !== "object") return;
      client.send(JSON.stringify({ jsonrpc: "2.0", id: question.id, ...body }));
    });
  });
  const { port } = await listen(http, { host: "127.0.0.1", port: 0 });
  const host = `127.0.0.1:${port}`;
  const tell = (message: unknown): void => {
    const text = typeof message === "string" ? message : JSON.stringify(message);
    clients.at(-1)?.send(text);
  };
  return {
    url: `http://${host}`,
    host,
    clients,
    handshakes,
    questions,
    tell,
    notify(subscription) {
      const result = { context: { slot: 1 }, value: { err: null } };
      const params = { result, subscription };
      tell({ jsonrpc: "2.0", method: "signatureNotification", params });
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.terminate();
      await drain(http, AbortSignal.abort());
    },
  };
}

/** As {@link agreeing} numbers the last subscription. */
export function lastNumber({ questions }: ScriptedPubsub): number {
  const last = questions.findLast(({ method }) => method === "signatureSubscribe");
  return (last?.id ?? 0) + 1_000;
}
