/** An OTLP/HTTP receiver for traces (OTLP 1.x, JSON encoding), and the spans that it was sent. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";

export interface ReceivedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** "" where it has none. */
  readonly parentSpanId: string;
  /** 1 own, 2 server, 3 client. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Of the process that recorded it. */
  readonly resource: Readonly<Record<string, unknown>>;
  readonly isFailed: boolean;
}

export interface Collector extends AsyncDisposable {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  readonly requests: readonly { readonly url: string; readonly headers: IncomingHttpHeaders }[];
  /** All bodies, as they came. */
  readonly bodies: readonly string[];
}

/** @param status what it answers with; 200 takes the spans */
export async function startCollector(status = 200): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const bodies: string[] = [];
  const requests: { readonly url: string; readonly headers: IncomingHttpHeaders }[] = [];
  const server = createServer((request, response) => {
    const { url = "", headers } = request;
    const take = async (): Promise<void> => {
      const body = await text(request);
      requests.push({ url, headers });
      bodies.push(body);
      if (status === 200) spans.push(...readSpans(body));
      response.writeHead(status, { "Content-Type": "application/json" }).end("{}");
    };
    void take();
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    requests,
    bodies,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.timeout(1_000)),
  };
}

function readSpans(body: string): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(body);
  return listOf(resourceSpans).flatMap(({ resource, scopeSpans }) => {
    const about = attributesOf(Object(resource).attributes);
    return listOf(scopeSpans).flatMap(({ spans }) =>
      listOf(spans).map((span) => ({
        name: wordOf(span["name"]),
        traceId: wordOf(span["traceId"]),
        spanId: wordOf(span["spanId"]),
        parentSpanId: wordOf(span["parentSpanId"]),
        kind: Number(span["kind"]),
        attributes: attributesOf(span["attributes"]),
        resource: about,
        isFailed: Object(span["status"]).code === 2,
      })),
    );
  });
}

function wordOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value : [];
}

/** `[{ key, value: { stringValue } }]` as an object. */
function attributesOf(value: unknown): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    listOf(value).map(({ key, value: wrapped }) => [
      String(key),
      Object.values(Object(wrapped))[0],
    ]),
  );
}
