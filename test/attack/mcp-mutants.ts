/** About servers of MCP whose tools are sold: a call that reaches a tool unpaid, or that pays for another (H30). */
import type { Mutant } from "./mutant.ts";

const MESSAGE = "src/gateway/mcp/message.ts";
const TABLE = "src/gateway/mcp/tool-table.ts";
const DECIDING = "src/gateway/mcp/deciding.ts";
const CONVERSATION = "src/gateway/mcp/conversation.ts";
const READER = "src/pricing/json-body.ts";

const ANSWER_TEST = "test/unit/gateway/mcp/conversation.test.ts";
const IDS = "src/gateway/mcp/under-way.ts";
const IDS_TEST = "test/unit/gateway/mcp/under-way.test.ts";
const MESSAGE_TEST = "test/unit/gateway/mcp/message.test.ts";
const TABLE_TEST = "test/unit/gateway/mcp/tool-table.test.ts";
const SHOP_TEST = "test/integration/mcp/sold-tools.test.ts";

export const MCP_MUTANTS: readonly Mutant[] = [
  caughtBy(MESSAGE_TEST, "takes several messages at once for one that sells nothing", {
    file: MESSAGE,
    find: "  if (Array.isArray(value)) {\n",
    put: '  if (Array.isArray(value)) return new Map([["jsonrpc", "2.0"], ["result", null]]);\n  if (Array.isArray(value)) {\n',
  }),
  caughtBy(MESSAGE_TEST, "passes over members in other letters", {
    file: MESSAGE,
    find: "    if (!names.includes(folded)) continue;\n",
    put: "    if (!names.includes(member)) continue;\n",
  }),
  caughtBy(MESSAGE_TEST, "passes over members that one reader ends at a NUL", {
    file: MESSAGE,
    find: 'const [read = ""] = member.split("\\0", 1);',
    put: "const read = member;",
  }),
  caughtBy(MESSAGE_TEST, "lets a call pass that is written in other letters", {
    file: MESSAGE,
    find: "if (isOdd || (method !== CALL && looseName(method) === CALL)) {",
    put: "if (isOdd) {",
  }),
  caughtBy(MESSAGE_TEST, "lets a method pass that one reader ends at a NUL", {
    file: MESSAGE,
    find: "  const isOdd = !METHOD.test(method);\n",
    put: "  const isOdd = method.length > 256;\n",
  }),
  caughtBy(MESSAGE_TEST, "takes a call without an id for a notification", {
    file: MESSAGE,
    find: "  if (id === null) {\n",
    put: '  if (id === null && !outer.has("id")) return { kind: "other" };\n  if (id === null) {\n',
  }),
  caughtBy(MESSAGE_TEST, "takes a call that is an answer, too, for an answer", {
    file: MESSAGE,
    find: "  if (method === undefined && isAnswer) {\n",
    put: "  if (isAnswer) {\n",
  }),
  caughtBy(MESSAGE_TEST, "believes the body whatever header lines say of the method", {
    file: MESSAGE,
    find: "if (methods.length > 1 || methods.some((each) => method !== undefined && each !== method)) {",
    put: "if (methods.length > 9) {",
  }),
  caughtBy(MESSAGE_TEST, "believes the body whatever header lines say of the name", {
    file: MESSAGE,
    find: "names.some((each) => wordOf(each) !== name)",
    put: "names.some((each) => wordOf(each) === undefined)",
  }),
  caughtBy(MESSAGE_TEST, "gives the backend the payment", {
    file: MESSAGE,
    find: "text.slice(0, marked.begin) + blank + text.slice(marked.end)",
    put: "text + blank.slice(0, 0)",
  }),
  caughtBy(MESSAGE_TEST, "takes other arguments for the same call", {
    file: MESSAGE,
    find: "new Map(asked)",
    put: "new Map(asked.slice(0, 1))",
  }),
  caughtBy(MESSAGE_TEST, "finds a payment in the arguments", {
    file: READER,
    find: "this.#led = isLed ? led + 1 : -1;",
    put: "this.#led = isLed ? led + 1 : led;",
  }),
  caughtBy(TABLE_TEST, "takes names that readers do not see alike", {
    file: TABLE,
    find: '    if (!isPlain(name)) return "unclear";\n',
    put: "",
  }),
  caughtBy(TABLE_TEST, "compares names exactly, and no looser", {
    file: TABLE,
    find: 'return this.#mayBeOther(looseName(name), strict) ? "unclear" : strict;',
    put: "return strict;",
  }),
  caughtBy(TABLE_TEST, "has the shortest beginning of names count", {
    file: TABLE,
    find: "right.length - left.length",
    put: "left.length - right.length",
  }),
  caughtBy(SHOP_TEST, "sells what a backend says that it has not done", {
    file: CONVERSATION,
    find: '} else if (memberOf(result, "isError") === true) {',
    put: '} else if (memberOf(result, "isError") === "yes") {',
  }),
  caughtBy(SHOP_TEST, "binds a payment to the tool alone", {
    file: CONVERSATION,
    find: "binding: `POST ${place}#${called}`, target",
    put: "binding: `POST ${place}#${encodeURIComponent(name)}`, target: place",
  }),
  caughtBy(SHOP_TEST, "shows tools that are not to be had", {
    file: "src/gateway/mcp/tool-list.ts",
    find: 'if (found === undefined || found === "unclear" || found.isDenied) return [];',
    put: 'if (found === undefined || found === "unclear") return [];',
  }),
  caughtBy("test/unit/gateway/mcp/rewritten-response.test.ts", "keeps what waits without an end", {
    file: "src/gateway/mcp/rewritten-response.ts",
    find: "if (this.#waiting > MAX_WAITING_BYTES) {",
    put: "if (this.#waiting > Infinity) {",
  }),
  caughtBy(ANSWER_TEST, "gives goods for nothing that come under another id", {
    file: CONVERSATION,
    find: 'return message["id"] === this.#id || this.#verdict === null;',
    put: 'return message["id"] === this.#id;',
  }),
  caughtBy(IDS_TEST, "has one id stand for two messages", {
    file: IDS,
    find: "if (held.asked !== asked) return null;",
    put: "",
  }),
  caughtBy(IDS_TEST, "takes an id of a session in digits for another one", {
    file: IDS,
    find: "${String(id).toWellFormed()}",
    put: "${JSON.stringify(id)}",
  }),
  caughtBy(IDS_TEST, "keeps ids of what was answered", {
    file: IDS,
    find: "if (held.count === 0) this.#held.delete(key);",
    put: "",
  }),
  caughtBy("test/integration/mcp/sold-ids.test.ts", "looks at no ids of a session", {
    file: DECIDING,
    find: "if (!isBegun(visitor, message, ground)) {",
    put: "if (message.id === undefined) {",
  }),
  caughtBy(ANSWER_TEST, "pays back by itself what its buyer has cancelled", {
    file: CONVERSATION,
    find: "  RPC_ERRORS.cancelled,\n",
    put: "",
  }),
  caughtBy(ANSWER_TEST, "gives what it cannot read for nothing", {
    file: CONVERSATION,
    find: "if (sold !== null && isNoMessage(text, message)) {",
    put: "if (sold !== null && message === null) {",
  }),
  caughtBy(ANSWER_TEST, "gives what it has held and cannot read for nothing", {
    file: CONVERSATION,
    find: "if (this.#isWithheld && this.#sold === null) {",
    put: "if (this.#isWithheld && this.call === null) {",
  }),
  caughtBy(ANSWER_TEST, "gives what says that it is of another type for nothing", {
    file: "src/gateway/mcp/rewritten-response.ts",
    find: 'return readsAll ? "document" : "passing";',
    put: 'return readsAll ? "passing" : "passing";',
  }),
  caughtBy(SHOP_TEST, "hands on calls of tools that are denied", {
    file: DECIDING,
    find: 'if (found === undefined || found.isDenied) return unknown("there is no such tool");',
    put: 'if (found === undefined) return unknown("there is no such tool");\n  if (found.isDenied) return decision;',
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H30", unit, ...edit };
}
