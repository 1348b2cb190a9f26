/**
 * The tools, resources and prompts that every server of the stage has, as data and functions that know no SDK: what the
 * conformance suite asks for by name, and what the tests of this project want to see.
 */
import { setTimeout as delay } from "node:timers/promises";

/** What a tool is given beside its arguments. */
export interface ToolCall {
  readonly args: Readonly<Record<string, unknown>>;
  /** Null where the client asked for none, and of a revision without them. */
  readonly progress: ((done: number, total: number) => Promise<void>) | null;
  readonly log: (text: string) => Promise<void>;
  /** Asks the client, and waits for its answer. */
  readonly ask: (method: AskedMethod, params: object) => Promise<unknown>;
  /** Ends the stream of this call, which its client is to take up again; undefined where the server has no event store. */
  readonly closeStream: (() => void) | undefined;
  /** The client has cancelled it. */
  readonly signal: AbortSignal;
}

export type AskedMethod = "sampling/createMessage" | "elicitation/create";

export type ToolContent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image" | "audio"; readonly data: string; readonly mimeType: string }
  | {
      readonly type: "resource";
      readonly resource: { readonly uri: string; readonly mimeType: string; readonly text: string };
    };

export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. Default: there are none. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** What is told in `_meta.used` of its results. Default: nothing. */
  readonly used?: (args: Readonly<Record<string, unknown>>) => unknown;
  /** What it throws is a result with `isError`. */
  readonly run: (call: ToolCall) => Promise<readonly ToolContent[]>;
}

/** A PNG of one pixel, and a WAV of no samples. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
/** What the conformance suite wants between two messages of a call, milliseconds. */
const BETWEEN_MS = 50;

export const text = (content: string): ToolContent => ({ type: "text", text: content });
const image: ToolContent = { type: "image", data: PNG, mimeType: "image/png" };

const embedded = (uri: string, content: string): ToolContent => ({
  type: "resource",
  resource: { uri, mimeType: "text/plain", text: content },
});

/** An object of these members, all of them required. */
const strings = (...names: readonly string[]): Readonly<Record<string, unknown>> => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  required: names,
});

const constant = (name: string, ...content: readonly ToolContent[]): Tool => ({
  name,
  description: `Always the same: ${name}`,
  run: async () => content,
});

/** A tool that asks its client for input of that form. */
const asking = (name: string, properties: object, required: readonly string[] = []): Tool => ({
  name,
  description: `Asks its user: ${name}`,
  run: async ({ ask, args }) => {
    const requestedSchema = {
      type: "object",
      properties,
      ...(required.length > 0 && { required }),
    };
    const { message = "Please fill this in" } = args;
    const answer = Object(await ask("elicitation/create", { message, requestedSchema }));
    return [text(`Answered: action=${answer.action}, content=${JSON.stringify(answer.content)}`)];
  },
  ...(required.length > 0 && { input: strings("message") }),
});

const titled = (word: string): readonly { const: string; title: string }[] =>
  ["First", "Second", "Third"].map((each, at) => ({
    const: `value${at + 1}`,
    title: `${each} ${word}`,
  }));
const options = ["option1", "option2", "option3"];

/** What the conformance suite calls. */
const CONFORMANCE_TOOLS: readonly Tool[] = [
  constant("test_simple_text", text("This is a simple text response for testing.")),
  constant("test_image_content", image),
  constant("test_audio_content", { type: "audio", data: WAV, mimeType: "audio/wav" }),
  constant("test_embedded_resource", embedded("test://embedded-resource", "An embedded resource.")),
  constant(
    "test_multiple_content_types",
    text("Several kinds of content:"),
    image,
    embedded("test://mixed-content-resource", "Beside the others."),
  ),
  {
    name: "test_tool_with_logging",
    description: "Logs while it runs",
    run: async ({ log }) => {
      await log("Tool execution started");
      await delay(BETWEEN_MS);
      await log("Tool processing data");
      await delay(BETWEEN_MS);
      await log("Tool execution completed");
      return [text("Logged.")];
    },
  },
  {
    name: "test_tool_with_progress",
    description: "Tells how far it is",
    run: async ({ progress }) => {
      for (const done of [0, 50, 100]) {
        await progress?.(done, 100);
        await delay(BETWEEN_MS);
      }
      return [text("Done.")];
    },
  },
  {
    name: "test_error_handling",
    description: "Always fails",
    run: async () => {
      throw new Error("This tool intentionally returns an error for testing");
    },
  },
  {
    name: "test_reconnection",
    description: "Ends its stream before it answers",
    run: async ({ closeStream }) => {
      await delay(BETWEEN_MS);
      closeStream?.();
      await delay(BETWEEN_MS);
      return [text("Reconnected.")];
    },
  },
  {
    name: "test_sampling",
    description: "Asks its client's model",
    input: strings("prompt"),
    run: async ({ ask, args }) => {
      const content = { type: "text", text: String(args["prompt"]) };
      const params = { messages: [{ role: "user", content }], maxTokens: 100 };
      const answer = Object(await ask("sampling/createMessage", params));
      return [text(`LLM response: ${answer.content?.text}`)];
    },
  },
  asking("test_elicitation", { username: { type: "string" }, email: { type: "string" } }, [
    "username",
    "email",
  ]),
  asking("test_elicitation_sep1034_defaults", {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  }),
  asking("test_elicitation_sep1330_enums", {
    untitledSingle: { type: "string", enum: options },
    titledSingle: { type: "string", oneOf: titled("Option") },
    legacyEnum: {
      type: "string",
      enum: ["opt1", "opt2", "opt3"],
      enumNames: ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti: { type: "array", items: { type: "string", enum: options } },
    titledMulti: { type: "array", items: { anyOf: titled("Choice") } },
  }),
  {
    ...constant("json_schema_2020_12_tool", text("Valid.")),
    input: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: {
        address: {
          type: "object",
          properties: { street: { type: "string" }, city: { type: "string" } },
        },
      },
      properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
      additionalProperties: false,
    },
  },
];

export interface Resource {
  readonly uri: string;
  readonly name: string;
  readonly description: string;
  readonly mimeType: string;
  readonly text?: string;
  readonly blob?: string;
}

export const RESOURCES: readonly Resource[] = [
  {
    uri: "test://static-text",
    name: "Static text",
    description: "Text that never changes",
    mimeType: "text/plain",
    text: "This is the content of the static text resource.",
  },
  {
    uri: "test://static-binary",
    name: "Static picture",
    description: "A picture that never changes",
    mimeType: "image/png",
    blob: PNG,
  },
  {
    uri: "test://watched-resource",
    name: "Watched",
    description: "What may be subscribed to",
    mimeType: "text/plain",
    text: "Watched.",
  },
];

export const TEMPLATE = {
  uriTemplate: "test://template/{id}/data",
  name: "Template",
  description: "Data of an id",
  mimeType: "application/json",
};

/** Null: there is none. */
export function readResource(uri: string): Omit<Resource, "name" | "description"> | null {
  const known = RESOURCES.find((each) => each.uri === uri);
  if (known !== undefined) {
    const { name: _, description: __, ...content } = known;
    return content;
  }
  const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
  if (id === undefined) return null;
  return { uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true }) };
}

type PromptContent = ToolContent;

export interface Prompt {
  readonly name: string;
  readonly description: string;
  readonly arguments?: readonly { readonly name: string; readonly required: true }[];
  readonly messages: (args: Readonly<Record<string, string>>) => readonly PromptContent[];
}

const argument = (name: string) => ({ name, required: true }) as const;

export const PROMPTS: readonly Prompt[] = [
  {
    name: "test_simple_prompt",
    description: "Without arguments",
    messages: () => [text("This is a simple prompt for testing.")],
  },
  {
    name: "test_prompt_with_arguments",
    description: "With two arguments",
    arguments: [argument("arg1"), argument("arg2")],
    messages: ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  },
  {
    name: "test_prompt_with_embedded_resource",
    description: "With a resource",
    arguments: [argument("resourceUri")],
    messages: ({ resourceUri = "" }) => [
      embedded(resourceUri, "Embedded resource content for testing."),
      text("Please process the embedded resource above."),
    ],
  },
  {
    name: "test_prompt_with_image",
    description: "With a picture",
    messages: () => [image, text("Please analyze the image above.")],
  },
];

/** Tools whose calls a test holds, counts and sees cancelled. */
export class Workshop {
  /** Names and arguments of the calls, in their order. */
  readonly calls: { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[] =
    [];
  /** How many `hold` calls were cancelled by their clients. */
  cancelled = 0;
  #released = Promise.withResolvers<void>();
  #changed = Promise.withResolvers<void>();

  /** Lets every `hold` that waits go on, and those that come until the next {@link hold}. */
  release(): void {
    this.#released.resolve();
  }

  /** `hold` waits again. */
  hold(): void {
    this.#released = Promise.withResolvers();
  }

  /** Resolves as soon as it is so: looked at with each call, and each cancellation. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await this.#changed.promise;
  }

  #tell(): void {
    const told = this.#changed;
    this.#changed = Promise.withResolvers();
    told.resolve();
  }

  /** How often a tool was called. */
  count(name: string): number {
    return this.calls.filter((each) => each.name === name).length;
  }

  get tools(): readonly Tool[] {
    const own: readonly Tool[] = [
      {
        name: "echo",
        description: "Says what it is told",
        input: strings("text"),
        run: async ({ args }) => [text(String(args["text"]))],
      },
      {
        name: "quote",
        description: "What a share costs",
        input: strings("ticker"),
        run: async ({ args }) => [text(`${String(args["ticker"])}: 42`)],
      },
      {
        name: "hold",
        description: "Tells that it is half done, and waits until it is released",
        run: async ({ progress, signal }) => {
          await progress?.(1, 2);
          const aborted = new Promise<"aborted">((resolve) => {
            signal.addEventListener("abort", () => resolve("aborted"), { once: true });
          });
          const ended = await Promise.race([aborted, this.#released.promise]);
          if (ended === "aborted") {
            this.cancelled += 1;
            this.#tell();
            throw new Error("cancelled");
          }
          await progress?.(2, 2);
          return [text("released")];
        },
      },
      {
        name: "cut",
        description: "Ends its stream, and answers on the next",
        run: async ({ closeStream, progress }) => {
          await progress?.(1, 2);
          closeStream?.();
          await this.#released.promise;
          return [text("resumed")];
        },
      },
      {
        name: "fail",
        description: "Always fails",
        run: async () => {
          throw new Error("it failed");
        },
      },
      {
        name: "big",
        description: "As many letters as are asked for",
        input: { type: "object", properties: { letters: { type: "integer" } } },
        used: (args) => args["letters"],
        run: async ({ args }) => [text("x".repeat(Number(args["letters"])))],
      },
    ];
    return [...own, ...CONFORMANCE_TOOLS].map((tool) => ({
      ...tool,
      run: (call) => {
        this.calls.push({ name: tool.name, args: call.args });
        this.#tell();
        return tool.run(call);
      },
    }));
  }
}
