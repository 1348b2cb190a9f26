/** The backend that the demo sells: an ordinary HTTP server that knows nothing of payments. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

/** Ticks that one stream sends, and the pause between them, milliseconds. */
const TICKS = 5;
const TICK_MS = 200;

export function createSampleBackend(): Server {
  return createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://backend");
  if (url.pathname === "/weather") {
    const city = url.searchParams.get("city") ?? "Oslo";
    return json(response, { city, temperature: -3, unit: "celsius" });
  }
  if (url.pathname === "/summarize") {
    const text = await readText(request);
    return json(response, { summary: `${text.split(/\s+/).length} words, well chosen` });
  }
  if (url.pathname.startsWith("/reports/")) {
    return json(response, { id: url.pathname.slice("/reports/".length), pages: 42 });
  }
  if (url.pathname === "/stream") return stream(response);
  if (url.pathname === "/health") return json(response, { status: "fine" });
  response.writeHead(404).end();
}

async function stream(response: ServerResponse): Promise<void> {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (let tick = 1; tick <= TICKS; tick += 1) {
    response.write(`data: tick ${tick}\n\n`);
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  response.end();
}

async function readText(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString("utf8");
}

function json(response: ServerResponse, body: object): void {
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}
