/** About routes that agents meet as tools: a call that reaches another route, or more than its message may hold (H29). */
import type { Mutant } from "./mutant.ts";

const CALLS = "src/gateway/calls/tool-calls.ts";
const CALL = "src/gateway/calls/call-request.ts";
const REQUEST = "src/tools/tool-request.ts";
const INPUT = "src/tools/tool-input.ts";
const ANSWER = "src/tools/tool-answer.ts";
const TOOLS = "src/tools/tools.ts";

const SHAPE = "src/x402/json-shape.ts";
const SHAPE_TEST = "test/unit/x402/json-shape.test.ts";

const HOSTILE_TEST = "test/integration/tools-hostile.test.ts";
const SHOP_TEST = "test/integration/tools.test.ts";
const CALLS_TEST = "test/unit/gateway/calls/tool-calls.test.ts";
const TOOLS_TEST = "test/unit/tools/tools.test.ts";
const ANSWER_TEST = "test/unit/tools/tool-answer.test.ts";

export const TOOL_MUTANTS: readonly Mutant[] = [
  caughtBy(HOSTILE_TEST, "has messages checked that hold as many values as somebody writes", {
    file: CALLS,
    find: "  if (!isPlain(body)) {\n",
    put: "  if (!isPlain(null)) {\n",
  }),
  caughtBy(SHAPE_TEST, "has as much read as a message of its size can hold", {
    file: SHAPE,
    find: "else if (byte === COMMA) values += 1;",
    put: "else if (byte === COMMA) values += 0;",
  }),
  caughtBy(HOSTILE_TEST, "looks into what arguments hold, where nobody else does", {
    file: CALLS,
    find: '  ["params", "arguments", "*"],\n',
    put: "",
  }),
  caughtBy(HOSTILE_TEST, "tells strangers what there is as often as they ask", {
    file: CALLS,
    find: "const seconds = isTold ? challenge.waitForWord(client) : 0;",
    put: "const seconds = 0;",
  }),
  caughtBy(HOSTILE_TEST, "keeps whoever pays waiting for those who ask", {
    file: CALLS,
    find: "&& !isCall(read.body);",
    put: "&& read.body !== null;",
  }),
  caughtBy(HOSTILE_TEST, "calls by a tool whatever route its arguments lead to", {
    file: CALLS,
    find: '      if (!isRoute || match.value.label !== route) return { kind: "elsewhere" };\n',
    put: "",
  }),
  caughtBy(HOSTILE_TEST, "writes an argument into the path as it is", {
    file: REQUEST,
    find: "written.push(segmentText(each));",
    put: "written.push(each);",
  }),
  caughtBy(TOOLS_TEST, "takes a part of a path that leads upwards", {
    file: REQUEST,
    find: 'if (each === "." || each === "..") return',
    put: 'if (each === ".") return',
  }),
  caughtBy(TOOLS_TEST, "takes a part of a path that is empty", {
    file: REQUEST,
    find: 'if (each === "" && !(isRest && text === "")) return',
    put: 'if (each === "" && text === "" && !isRest) return',
  }),
  caughtBy(HOSTILE_TEST, "writes an argument into a header line as it is", {
    file: REQUEST,
    find: "if (text === undefined || !isHeaderValue(text)) {",
    put: "if (text === undefined) {",
  }),
  caughtBy(HOSTILE_TEST, "lets an argument write a line that only a proxy writes", {
    file: INPUT,
    find: "if (isWritable(field)) made.add(",
    put: "made.add(",
  }),
  caughtBy(HOSTILE_TEST, "passes over an argument that there is not", {
    file: REQUEST,
    find: "if (unknown !== undefined) {",
    put: "if (unknown === null) {",
  }),
  caughtBy(TOOLS_TEST, "sends as many values of one name as somebody writes", {
    file: REQUEST,
    find: "if (list.length > MAX_LIST) return",
    put: "if (list.length > 1_000_000) return",
  }),
  caughtBy(SHOP_TEST, "makes a tool of a route that is not listed", {
    file: TOOLS,
    find: '  if (!discoverable) return "it is not listed (discoverable: false)";\n',
    put: "",
  }),
  caughtBy(TOOLS_TEST, "gives two routes one name", {
    file: TOOLS,
    find: "const isAlone = counts.get(name)?.length === 1 && ",
    put: "const isAlone = ",
  }),
  caughtBy(HOSTILE_TEST, "takes a payment out of the lines of a message", {
    file: CALL,
    find: '  "accept-language",\n',
    put: '  "accept-language",\n  "payment-signature",\n',
  }),
  caughtBy(HOSTILE_TEST, "forgets who has sent the message", {
    file: CALL,
    find: "    return this.#socket.remoteAddress;",
    put: '    return this.#socket.remoteAddress && "0.0.0.0";',
  }),
  caughtBy(CALLS_TEST, "ends the connection of a message with one call of it", {
    file: CALL,
    find: "  destroy(): void {\n    this.#isDestroyed = true;",
    put: "  destroy(): void {\n    this.#socket.destroy();",
  }),
  caughtBy(CALLS_TEST, "keeps what an answer has taken", {
    file: CALLS,
    find: "    response.free();\n",
    put: "",
  }),
  caughtBy(CALLS_TEST, "waits for an answer to a client that has left", {
    file: CALLS,
    find: '  signal.addEventListener("abort", cut, { once: true });\n',
    put: "",
  }),
  caughtBy(HOSTILE_TEST, "reads a message of whatever size, where nothing tells it", {
    file: CALLS,
    find: 'if (length > MAX_MESSAGE_BYTES) resolve("too-large");',
    put: 'if (length < 0) resolve("too-large");',
  }),
  caughtBy(SHAPE_TEST, "reads messages however deep they nest", {
    file: SHAPE,
    find: 'if (depth > most.depth) return "depth";',
    put: "",
  }),
  caughtBy(HOSTILE_TEST, "takes a batch of messages", {
    file: CALLS,
    find: "if (Array.isArray(body)) {",
    put: "if (body === undefined) {",
  }),
  caughtBy(HOSTILE_TEST, "answers messages of any page", {
    file: CALLS,
    find: "if (!mayAsk(request, cors, snapshot.publicUrl)) {",
    put: "if (request.destroyed) {",
  }),
  caughtBy(SHOP_TEST, "tells as declared what is not", {
    file: ANSWER,
    find: "if (isRecord(value) && isAsDeclared(value, tool)) {",
    put: "if (isRecord(value)) {",
  }),
  caughtBy(ANSWER_TEST, "unpacks whatever an answer comes to", {
    file: ANSWER,
    find: "gzip: (body) => gunzipSync(body, { maxOutputLength: MAX_UNPACKED_BYTES }),",
    put: "gzip: (body) => gunzipSync(body),",
  }),
  caughtBy("test/integration/tools-hostile.test.ts", "holds large messages without an end", {
    file: "src/gateway/calls/tool-calls.ts",
    find: "read.bytes > LARGE_MESSAGE_BYTES ? read.bytes : 0;",
    put: "read.bytes > Infinity ? read.bytes : 0;",
  }),
  caughtBy(
    "test/integration/tools-sales.test.ts",
    "leads whoever calls a tool to where he cannot go",
    {
      file: "src/gateway/delivery.ts",
      find: " || visitor.request instanceof CallRequest;",
      put: " || visitor.request === null || CallRequest === null;",
    },
  ),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H29", unit, ...edit };
}
