/** About programs that the gateway starts for strangers: what they see, how many there are, and when they end (H31). */
import type { Mutant } from "./mutant.ts";

const HOUSE = "src/stdio/command-house.ts";
const PROCESS = "src/stdio/stdio-process.ts";
const SESSION = "src/stdio/stdio-session.ts";
const CALLER = "src/stdio/stdio-caller.ts";
const EVENTS = "src/stdio/event-store.ts";

const HOUSE_TEST = "test/unit/stdio/command-house.test.ts";
const PROCESS_TEST = "test/unit/stdio/stdio-process.test.ts";
const EVENTS_TEST = "test/unit/stdio/event-store.test.ts";
const SHOP_TEST = "test/integration/mcp/command.test.ts";
const HOSTILE_TEST = "test/unit/stdio/hostile-programs.test.ts";
const READING_TEST = "test/unit/stdio/message-reading.test.ts";
const LEFT_TEST = "test/unit/stdio/left-folders.test.ts";
const LEFT = "src/stdio/left-folders.ts";
const END_TEST = "test/integration/mcp/command-ends.test.ts";

export const COMMAND_MUTANTS: readonly Mutant[] = [
  caughtBy(SHOP_TEST, "hands the gateway's environment on", {
    file: PROCESS,
    find: "env: { PATH, ...settings.env },",
    put: "env: { PATH, ...process.env, ...settings.env },",
  }),
  caughtBy(HOUSE_TEST, "tells calls nothing of a process that is gone", {
    file: SESSION,
    find: "await Promise.all([...this.#calls.keys()].map((id) => this.#answer(failure(id, told))));",
    put: "void told;",
  }),
  caughtBy(HOUSE_TEST, "tells calls without a session nothing of a process that is gone", {
    file: CALLER,
    find: "void transport.send(failure(id, told)).catch(nobodyHears);",
    put: "void [transport, id, told];",
  }),
  caughtBy(SHOP_TEST, "takes messages of any size", {
    file: "src/stdio/message-reading.ts",
    find: "if (bytes > most) this.#drop(reading);",
    put: "if (bytes < 0) this.#drop(reading);",
  }),
  caughtBy(SHOP_TEST, "looks at no memory", {
    file: PROCESS,
    find: "if (bytes > most) void this.end(",
    put: "if (bytes < 0) void this.end(",
  }),
  caughtBy(SHOP_TEST, "takes a batch", {
    file: HOUSE,
    find: "if (Array.isArray(body)) {",
    put: "if (Array.isArray(body) && body.length === 0) {",
  }),
  caughtBy(SHOP_TEST, "keeps what nobody asks anything", {
    file: HOUSE,
    find: "if (!talker.isBusy && now - used > idleMs)",
    put: "if (!talker.isBusy && now - used > 1_000 * idleMs)",
  }),
  caughtBy(SHOP_TEST, "keeps a process for ever that is asked something", {
    file: HOUSE,
    find: "if (now - since > lifeMs)",
    put: "if (!talker.isBusy && now - since > lifeMs)",
  }),
  caughtBy(HOUSE_TEST, "takes a second call of the same id", {
    file: HOUSE,
    find: "if (held.talker.isAsked(body)) {",
    put: "if (held.talker.isAsked(null)) {",
  }),
  caughtBy(HOUSE_TEST, "takes an id in digits for another one than the number", {
    file: SESSION,
    find: "return String(id).toWellFormed();",
    put: "return JSON.stringify(id);",
  }),
  caughtBy(HOUSE_TEST, "gives one client all of them", {
    file: HOUSE,
    find: ".length >= perClient) {",
    put: ".length >= 1_000 * perClient) {",
  }),
  caughtBy(HOUSE_TEST, "tells clients apart by whole addresses", {
    file: HOUSE,
    find: `    const network = networkOf(address);
    const process = await`,
    put: `    const network = address;
    const process = await`,
  }),
  caughtBy(HOUSE_TEST, "begins as many as are asked for", {
    file: HOUSE,
    find: "if (this.#living.size >= processes) {",
    put: "if (this.#living.size < 0) {",
  }),
  caughtBy(HOUSE_TEST, "ends what is asked something, to make room", {
    file: HOUSE,
    find: "if (held.talker.isBusy || held.used > before) continue;",
    put: "if (held.used > before) continue;",
  }),
  caughtBy(HOUSE_TEST, "ends who was asked something a moment ago, to make room", {
    file: HOUSE,
    find: "if (held.talker.isBusy || held.used > before) continue;",
    put: "if (held.talker.isBusy) continue;",
  }),
  caughtBy(HOUSE_TEST, "begins again at once what ends at once", {
    file: HOUSE,
    find: "this.#notBefore = time.now() + pause;",
    put: "this.#notBefore = time.now() + 0 * pause;",
  }),
  caughtBy(HOUSE_TEST, "waits for ever for what does not answer", {
    file: HOUSE,
    find: "if (!hasAnswered && now - since > START_MS)",
    put: "if (!hasAnswered && now - since < 0)",
  }),
  caughtBy(HOUSE_TEST, "answers pages of anywhere", {
    file: HOUSE,
    find: "return URL.canParse(origin) && LOOPBACK.has(new URL(origin).hostname);",
    put: "return URL.canParse(origin) || LOOPBACK.has(origin);",
  }),
  caughtBy(EVENTS_TEST, "remembers every event", {
    file: EVENTS,
    find: "this.#events.length > MAX_EVENTS ||",
    put: "",
  }),
  caughtBy(EVENTS_TEST, "remembers events of any size", {
    file: EVENTS,
    find: " || this.#bytes > MAX_EVENT_BYTES",
    put: "",
  }),
  caughtBy(EVENTS_TEST, "tells one stream what another one said", {
    file: EVENTS,
    find: 'event.streamId === streamId && "jsonrpc" in message',
    put: '"jsonrpc" in message',
  }),
  caughtBy(PROCESS_TEST, "logs all that a program says", {
    file: PROCESS,
    find: "if (this.#saidLines > SAID_LINES)",
    put: "if (this.#saidLines < 0)",
  }),
  caughtBy(PROCESS_TEST, "ends the program, and not what it has started", {
    file: PROCESS,
    find: "process.kill(-pid, signal);",
    put: "process.kill(pid, signal);",
  }),
  caughtBy(PROCESS_TEST, "holds whatever a program does not read", {
    file: PROCESS,
    find: "if (stdin !== null && stdin.writableLength > UNREAD",
    put: "if (stdin !== null && stdin.writableLength < 0 * UNREAD",
  }),
  caughtBy(HOSTILE_TEST, "hands an answer of any depth on", {
    file: PROCESS,
    find: "if (nestsAtMost(message, MAX_LEVELS)) return message;",
    put: "if (message !== undefined) return message;",
  }),
  caughtBy(SHOP_TEST, "hands a message of any depth on", {
    file: "src/stdio/commands.ts",
    find: 'if (over === "depth") return',
    put: 'if (over === "depth" && read.bytes.length < 0) return',
  }),
  caughtBy(SHOP_TEST, "looks through any number of values", {
    file: "src/stdio/commands.ts",
    find: 'if (over === "values") return',
    put: 'if (over === "values" && read.bytes.length < 0) return',
  }),
  caughtBy(HOSTILE_TEST, "waits for what has closed its output", {
    file: PROCESS,
    find: 'child.stdout?.once("close", () => void this.#noteDeaf("output"));',
    put: "",
  }),
  caughtBy(HOSTILE_TEST, "waits for what has closed its input", {
    file: PROCESS,
    find: 'child.stdin?.once("close", () => void this.#noteDeaf("input"));',
    put: "",
  }),
  caughtBy(HOSTILE_TEST, "makes room for one client many times at once", {
    file: HOUSE,
    find: "const theirs = [...this.#living.values(), ...this.#waiting.values()];",
    put: "const theirs = [...this.#living.values()];",
  }),
  caughtBy(READING_TEST, "holds whatever has come of messages", {
    file: "src/stdio/message-reading.ts",
    find: "if (this.#held <= most) return;",
    put: "if (this.#held >= 0) return;",
  }),
  caughtBy(READING_TEST, "counts what was cut for ever", {
    file: "src/stdio/message-reading.ts",
    find: "this.#held -= reading.held;",
    put: "",
  }),
  caughtBy(LEFT_TEST, "removes the folder of a gateway that lives", {
    file: LEFT,
    find: "|| !(await isDead(path))",
    put: "",
  }),
  caughtBy(LEFT_TEST, "removes the folder of a gateway that is just starting", {
    file: LEFT,
    find: "|| now - stats.mtimeMs < SETTLED_MS",
    put: "",
  }),
  caughtBy(LEFT_TEST, "removes what is open to others", {
    file: LEFT,
    find: " && (stats.mode & OTHERS) === 0",
    put: "",
  }),
  caughtBy(LEFT_TEST, "removes files", {
    file: LEFT,
    find: "!(await lstat(path)).isSocket() ||",
    put: "(await lstat(path)).isSocket() &&",
  }),
  caughtBy(LEFT_TEST, "leaves what killed gateways have left", {
    file: "src/stdio/commands.ts",
    find: "if (this.#opened.size === 0) await this.#tidy();",
    put: "",
  }),
  caughtBy(HOUSE_TEST, "counts nobody who was refused for want of room", {
    file: HOUSE,
    find: 'meter.refused("full");',
    put: "",
  }),
  caughtBy(HOUSE_TEST, "takes a program that ends at once for one that was ended", {
    file: HOUSE,
    find: 'hasAnswered ? "crashed" : "failed"',
    put: '"ended"',
  }),
  caughtBy(PROCESS_TEST, "looks at the memory of what it has started itself alone", {
    file: PROCESS,
    find: "pids.push(...(await childrenOf(each)));",
    put: "",
  }),
  caughtBy(PROCESS_TEST, "waits for ever for what it may not end", {
    file: PROCESS,
    find: "this.#givenUp.resolve();",
    put: "",
  }),
  caughtBy(END_TEST, "leaves what does not heed SIGTERM", {
    file: PROCESS,
    find: 'this.#signal("SIGKILL");',
    put: "",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H31", unit, ...edit };
}
