/**
 * Spans for an OpenTelemetry collector, over OTLP/HTTP, where the standard environment variables ask for them
 * (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT). The packages are loaded only then. Nothing is
 * instrumented but what the gateway itself does (`spans.ts`).
 */
import type * as Api from "@opentelemetry/api";
import type * as Sdk from "@opentelemetry/sdk-trace";
import type { Logger } from "./logger.ts";
import type { TraceParent } from "./request-context.ts";
import { recordSpansWith, type OpenSpan, type SpanOptions, type SpanRecorder } from "./spans.ts";
import type { SpanMeter } from "./span-meter.ts";
import { SpanQueue } from "./span-queue.ts";

/** The defaults of the OpenTelemetry specification for OTEL_BSP_… and OTEL_EXPORTER_OTLP_TIMEOUT. */
const MAX_QUEUED = 2_048;
const MAX_BATCH = 512;
const DELAY_MS = 5_000;
const TIMEOUT_MS = 10_000;

/** Characters of an attribute's value that are kept: a path may be long. */
const MAX_ATTRIBUTE_CHARACTERS = 1_024;
const SAMPLED_FLAG = 1;

export interface SpansOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly version: string;
  readonly meter: SpanMeter;
  readonly logger: Logger;
}

export interface Spans {
  /** Sends what waits, within its time, and records no more. */
  close(): Promise<void>;
}

const NONE: Spans = { close: () => Promise.resolve() };

/** From here on spans are recorded, where the environment asks for that. */
export async function openSpans(options: SpansOptions): Promise<Spans> {
  const { env, logger } = options;
  if (!areWanted(env)) return NONE;
  const protocol = env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] ?? env["OTEL_EXPORTER_OTLP_PROTOCOL"];
  if (protocol !== undefined && protocol !== "" && protocol !== "http/json") {
    logger.warn(
      { protocol },
      "traces are sent as http/json, which every OTLP/HTTP collector takes",
    );
  }
  const [api, sdk, provider] = await openProvider(options);
  recordSpansWith(recorderOf(api, provider.getTracer("coinslot", options.version)));
  logger.info({ sampler: describe(sdk.sampler) }, "traces are sent");
  return {
    async close() {
      recordSpansWith(null);
      await provider.shutdown();
    },
  };
}

function areWanted(env: NodeJS.ProcessEnv): boolean {
  if (env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  if (env["OTEL_TRACES_EXPORTER"] === "none") return false;
  const names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
  return names.some((name) => (env[name] ?? "") !== "");
}

interface Chosen {
  readonly sampler: Sdk.Sampler;
}

async function openProvider({
  env,
  version,
  meter,
  logger,
}: SpansOptions): Promise<readonly [typeof Api, Chosen, Sdk.TracerProvider]> {
  const [api, sdk, { OTLPTraceExporter }, resources] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/resources"),
  ]);
  const named = resources.resourceFromAttributes({
    "service.name": "coinslot",
    "service.version": version,
    "process.pid": process.pid,
  });
  // Later ones win; OTEL_SERVICE_NAME is for exactly that.
  const { resourceAttributesEnvDetector, serviceInstanceIdDetector, serviceNameEnvDetector } =
    resources;
  const detectors = [
    serviceInstanceIdDetector,
    resourceAttributesEnvDetector,
    serviceNameEnvDetector,
  ];
  const detected = resources.detectResources({ detectors });
  const sampler = samplerOf(sdk, env, logger);
  const maxQueued = countIn(env, "OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUED);
  const queue = new SpanQueue({
    exporter: new OTLPTraceExporter(),
    meter,
    maxQueued,
    maxBatch: Math.min(maxQueued, countIn(env, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MAX_BATCH)),
    delayMs: countIn(env, "OTEL_BSP_SCHEDULE_DELAY", DELAY_MS),
    timeoutMs: countIn(env, "OTEL_BSP_EXPORT_TIMEOUT", TIMEOUT_MS),
  });
  const provider = new sdk.TracerProvider({
    resource: resources.defaultResource().merge(named).merge(detected),
    sampler,
    spanProcessors: [queue],
    spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_CHARACTERS },
  });
  return [api, { sampler }, provider];
}

function countIn(env: NodeJS.ProcessEnv, name: string, otherwise: number): number {
  const text = env[name] ?? "";
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : otherwise;
}

/** As the OpenTelemetry specification names them; the default is `parentbased_always_on`. */
function samplerOf(sdk: typeof Sdk, env: NodeJS.ProcessEnv, logger: Logger): Sdk.Sampler {
  const name = env["OTEL_TRACES_SAMPLER"] || "parentbased_always_on";
  const ratio = ratioIn(env["OTEL_TRACES_SAMPLER_ARG"], logger);
  const [, isParentBased, root = ""] = /^(parentbased_)?(\w+)$/.exec(name) ?? [];
  const roots: Readonly<Record<string, () => Sdk.Sampler>> = {
    always_on: () => new sdk.AlwaysOnSampler(),
    always_off: () => new sdk.AlwaysOffSampler(),
    traceidratio: () => new sdk.TraceIdRatioBasedSampler(ratio),
  };
  const chosen = Object.hasOwn(roots, root) ? roots[root] : undefined;
  if (chosen === undefined) {
    logger.warn({ sampler: name }, "this sampler is not known; parentbased_always_on is used");
    return new sdk.ParentBasedSampler({ root: new sdk.AlwaysOnSampler() });
  }
  return isParentBased === undefined ? chosen() : new sdk.ParentBasedSampler({ root: chosen() });
}

function ratioIn(text: string | undefined, logger: Logger): number {
  if (text === undefined || text === "") return 1;
  const ratio = Number(text);
  if (ratio >= 0 && ratio <= 1) return ratio;
  logger.warn("OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1; every trace is sampled");
  return 1;
}

function describe(sampler: Sdk.Sampler): string {
  return sampler.toString();
}

function recorderOf(api: typeof Api, tracer: Api.Tracer): SpanRecorder {
  const kinds = {
    server: api.SpanKind.SERVER,
    client: api.SpanKind.CLIENT,
  };
  return {
    begin(name, { kind, attributes = {}, links = [] }: SpanOptions, parent) {
      const above =
        parent === null
          ? api.ROOT_CONTEXT
          : api.trace.setSpanContext(api.ROOT_CONTEXT, spanContextOf(parent));
      const spanKind = kind === undefined ? api.SpanKind.INTERNAL : kinds[kind];
      const linked = links.map((each) => ({ context: spanContextOf(each) }));
      const settings = { kind: spanKind, attributes: { ...attributes }, links: linked };
      return new RecordedSpan(api, tracer.startSpan(name, settings, above));
    },
  };
}

class RecordedSpan implements OpenSpan {
  readonly trace: TraceParent;
  readonly #api: typeof Api;
  readonly #span: Api.Span;

  constructor(api: typeof Api, span: Api.Span) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.trace = { traceId, spanId, flags: traceFlags.toString(16).padStart(2, "0") };
    this.#api = api;
    this.#span = span;
  }

  set(attributes: Parameters<OpenSpan["set"]>[0]): void {
    this.#span.setAttributes({ ...attributes });
  }

  fail(reason: string): void {
    this.#span.setAttribute("error.type", reason);
    this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
  }

  end(): void {
    this.#span.end();
  }
}

/** Always as one of another process: only its ids are known here. */
function spanContextOf({ traceId, spanId, flags }: TraceParent): Api.SpanContext {
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & SAMPLED_FLAG, isRemote: true };
}
