/** About servers of MCP whose tools are sold: a call that reaches a tool unpaid, or that pays for another (H30). */
import type { Mutant } from "./mutant.ts";

const MESSAGE = "src/gateway/mcp/message.ts";
const TABLE = "src/gateway/mcp/tool-table.ts";
const DECIDING = "src/gateway/mcp/deciding.ts";
const CONVERSATION = "src/gateway/mcp/conversation.ts";
const READER = "src/pricing/json-body.ts";

const ANSWER_TEST = "test/unit/gateway/mcp/conversation.test.ts";
const MIRRORED = "src/gateway/mcp/mirrored-lines.ts";
const IDS = "src/gateway/mcp/under-way.ts";
const IDS_TEST = "test/unit/gateway/mcp/under-way.test.ts";
const WIRE_TEST = "test/unit/gateway/mcp/wire-id.test.ts";
const ANSWERS = "src/gateway/mcp/rewritten-response.ts";
const PIECES_TEST = "test/unit/gateway/mcp/rewritten-response.test.ts";
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
    file: MIRRORED,
    find: "if (methods.length > 1 || methods.some((each) => method !== undefined && each !== method)) {",
    put: "if (methods.length > 9) {",
  }),
  caughtBy(MESSAGE_TEST, "hands on lines of arguments that are in no argument", {
    file: MIRRORED,
    find: "const isTold = [...params].every(",
    put: "const isTold = [...params].some(() => true) || [...params].every(",
  }),
  caughtBy(MESSAGE_TEST, "takes a line of one argument for that of another", {
    file: MIRRORED,
    find: "if (named.length > 0) return",
    put: "if (named.length > 9) return",
  }),
  caughtBy(MESSAGE_TEST, "hands on two lines of one argument", {
    file: MIRRORED,
    find: "if (found.has(name)) return null;",
    put: "",
  }),
  caughtBy(SHOP_TEST, "hands on lines that mirror a message where there is none", {
    file: DECIDING,
    find: "if (fault !== null) return rejected(400, fault);",
    put: "",
  }),
  caughtBy(MESSAGE_TEST, "believes the body whatever header lines say of the name", {
    file: MIRRORED,
    find: "names.some((each) => wordOf(each) !== name)",
    put: "names.some((each) => wordOf(each) === undefined)",
  }),
  caughtBy(MESSAGE_TEST, "gives the backend the payment", {
    file: MESSAGE,
    find: "const blanks = paid === undefined ? [] : [blankOf(text, paid)];",
    put: "const blanks = paid === undefined ? [] : [blankOf(text, paid)].slice(1);",
  }),
  caughtBy(MESSAGE_TEST, "takes other arguments for the same call", {
    file: MESSAGE,
    find: "new Map(asked)",
    put: "new Map(asked.slice(0, 1))",
  }),
  caughtBy(MESSAGE_TEST, "finds a payment in the arguments", {
    file: READER,
    find: "mark.length === path.length && mark.every((name, at) => name === path[at])",
    put: "mark.length <= path.length && mark.at(-1) === path.at(-1)",
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
    find: "return id === (this.#wire ?? this.#id) || this.#verdict === null;",
    put: "return id === (this.#wire ?? this.#id);",
  }),
  caughtBy(WIRE_TEST, "gives calls ids that anybody knows", {
    file: "src/gateway/mcp/wire-id.ts",
    find: "randomBytes(RANDOM_BYTES).toString",
    put: "Buffer.alloc(RANDOM_BYTES).toString",
  }),
  caughtBy(IDS_TEST, "keeps ids of what was answered", {
    file: IDS,
    find: "if (this.#wires.get(key) === wire) this.#wires.delete(key);",
    put: "",
  }),
  caughtBy(IDS_TEST, "forgets a call whose id was given up by an earlier one", {
    file: IDS,
    find: "if (this.#wires.get(key) === wire) this.#wires.delete(key);",
    put: "this.#wires.delete(key);",
  }),
  caughtBy(
    "test/integration/mcp/sold-replicas.test.ts",
    "hands priced calls on under ids of clients",
    {
      file: DECIDING,
      find: "  keepBody(request, read.bodyUnder(wire));\n  conversation",
      put: "  conversation",
    },
  ),
  caughtBy("test/integration/mcp/sold-ids.test.ts", "gives up calls by ids that no backend knows", {
    file: DECIDING,
    find: "if (wire !== undefined) keepBody(request, read.bodyUnder(wire));",
    put: "",
  }),
  caughtBy(ANSWER_TEST, "tells ids of ours in streams that are taken up again", {
    file: CONVERSATION,
    find: "if (id === undefined) return this.#list.tell(text, message);",
    put: "if (id !== null) return this.#list.tell(text, message);",
  }),
  caughtBy(ANSWER_TEST, "tells ids of ours of what is had for nothing", {
    file: CONVERSATION,
    find: "if (sold === null || !first) return this.#named(text, message);",
    put: "if (sold === null || !first) return text;",
  }),
  caughtBy(ANSWER_TEST, "sells what is packed, whatever it says", {
    file: ANSWERS,
    find: 'return readsAll && status < 300 ? "document" : "passing";',
    put: 'return "passing";',
  }),
  caughtBy(ANSWER_TEST, "sells what is packed and too large to be read", {
    file: ANSWERS,
    find: "if (instead === null && !isPlain(lines)) {",
    put: "if (instead !== null && !isPlain(lines)) {",
  }),
  caughtBy(ANSWER_TEST, "unpacks without an end", {
    file: "src/gateway/mcp/unpacked.ts",
    find: "{ maxOutputLength: MAX_UNPACKED_BYTES }",
    put: "{ maxOutputLength: 64 * MAX_UNPACKED_BYTES }",
  }),
  caughtBy(PIECES_TEST, "sees no event that ends in lines of two kinds", {
    file: ANSWERS,
    find: "/(?:\\r\\n|\\n|\\r(?!\\n)){2}/",
    put: "/\\r\\n\\r\\n|\\n\\n|\\r\\r/",
  }),
  caughtBy(PIECES_TEST, "sees no first event behind a mark", {
    file: ANSWERS,
    find: "this.#isFirst ? /^\\uFEFF/ :",
    put: "this.#isFirst ? /^\\uFFFF/ :",
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
