/** A TCP link to a server that can be stalled, cut, and made to lose the answer to one message. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

export interface FlakyLink extends AsyncDisposable {
  /** The same URL, by way of the link. */
  readonly url: string;
  /** Nothing passes in either direction, and nobody is told; new connections stand, and are not heard. */
  stall(): void;
  /** What was stalled is lost with its connections; new ones pass. */
  mend(): void;
  /** Of the next message that holds this text, the answer is lost and the connection with it. */
  loseAnswerTo(text: string): void;
}

export async function startFlakyLink(url: string): Promise<FlakyLink> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let isStalled = false;
  let lost: string | undefined;
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    let isDeaf = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (data) => {
      if (isStalled) return;
      if (lost !== undefined && data.includes(lost)) {
        lost = undefined;
        isDeaf = true;
      }
      upstream.write(data);
    });
    upstream.on("data", (data) => {
      if (isDeaf) client.destroy();
      else if (!isStalled) client.write(data);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the link has no port");
  const own = new URL(url);
  own.port = String(address.port);
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: own.href,
    stall() {
      isStalled = true;
    },
    mend() {
      isStalled = false;
      cut();
    },
    loseAnswerTo(text) {
      lost = text;
    },
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
