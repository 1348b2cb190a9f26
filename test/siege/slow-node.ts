/** A node that is as far away as nodes are: every question is answered so late, and as it is. */
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { buffer } from "node:stream/consumers";
import { Pool } from "undici";
import { drain, listen } from "../../src/gateway/listener/listener.ts";

const CONNECTIONS = 32;

export async function startSlowNode(
  nodeUrl: string,
  latencyMs: number,
): Promise<AsyncDisposable & { readonly url: string }> {
  const node = new Pool(nodeUrl, { connections: CONNECTIONS });
  const server = createServer(async (request, response) => {
    response.on("error", () => undefined);
    try {
      const [body] = await Promise.all([buffer(request), pause(latencyMs)]);
      const headers = { "content-type": "application/json" };
      const answer = await node.request({ path: "/", method: "POST", headers, body });
      response.writeHead(answer.statusCode, headers);
      response.end(Buffer.from(await answer.body.arrayBuffer()));
    } catch {
      response.destroy();
    }
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      await drain(server, AbortSignal.abort());
      await node.destroy();
    },
  };
}
