/**
 * A backend that speaks as OpenAI's API for chats does: JSON, or events with the usage at their end where that is asked for;
 * and, by `how` in its request, one that breaks off, lies, or forgets. `padding` is more than a client that has left can have
 * taken, before its end.
 */
import type { RequestListener } from "node:http";

export interface ModelBackend {
  readonly listener: RequestListener;
  /** Lets go what is held, in the order in which it was asked for; false: nothing was. */
  release(): boolean;
}

const WORDS = ["The", " weather", " is", ' "fine"', ".\n\ndata: {"];

export function modelBackend(): ModelBackend {
  const held: (() => void)[] = [];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const {
        stream,
        tokens = 0,
        how,
        padding = 0,
        ...asked
      } = text === "" ? {} : Object(JSON.parse(text));
      const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: tokens };
      if (how === "fails") return response.writeHead(503).end("no");
      if (how === "header") return response.setHeader("X-Usage", String(tokens)).end("fine");
      if (how === "encoded") {
        response.setHeader("Content-Encoding", "gzip");
        return response.end(Buffer.from("1f8b08", "hex"));
      }
      if (stream !== true) {
        const told = how === "no usage" ? {} : { usage };
        return response
          .setHeader("Content-Type", "application/json")
          .end(JSON.stringify({ choices: [{ message: { content: WORDS.join("") } }], ...told }));
      }
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      for (const content of WORDS) {
        response.write(
          `data: ${JSON.stringify({ choices: [{ delta: { content } }], usage: null })}\n\n`,
        );
      }
      const isTold = Object(asked["stream_options"]).include_usage === true;
      const end = (): void => {
        // As it stands on the wire there: cut within a word, too.
        if (isTold) {
          const last = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;
          response.write(last.slice(0, 30));
          response.write(last.slice(30));
        }
        response.end("data: [DONE]\n\n");
      };
      const padded = (then: () => void): void => {
        if (padding === 0) then();
        else response.write(`: ${"x".repeat(padding)}\n\n`, then);
      };
      if (how === "breaks") return void held.push(() => padded(() => response.destroy()));
      return how === "holds" ? void held.push(() => padded(end)) : end();
    });
  };
  return {
    listener,
    release: () => {
      const next = held.shift();
      next?.();
      return next !== undefined;
    },
  };
}
