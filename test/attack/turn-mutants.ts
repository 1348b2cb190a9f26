/** About the order in which those are served who come at once, and what each is owed meanwhile (H13). */
import type { Mutant } from "./mutant.ts";

const TURNS = "src/gateway/turns.ts";
const CONNECTIONS = "src/gateway/listener/bounded-connections.ts";
const ANSWERS = "src/gateway/listener/answers-in-turn.ts";
const ROOM = "src/gateway/room.ts";
const LANE = "src/fairness/fair-lane.ts";
const MESH = "src/facilitator/facilitator-router.ts";
const ENGINE = "src/payments/settlement/settlement-engine.ts";

const IN_TURNS = "test/integration/gateway/listener/connection-turns.test.ts";
const PIPELINED = "test/integration/gateway/listener/pipelined.test.ts";
const IN_ROOM = "test/unit/gateway/room.test.ts";
const IN_LANE = "test/unit/fairness/fair-lane.test.ts";
const IN_MESH = "test/unit/facilitator/facilitator-router.test.ts";
const IN_ENGINE = "test/unit/payments/settlement/settlement-engine.test.ts";

export const TURN_MUTANTS: readonly Mutant[] = [
  {
    name: "begins all in one turn",
    cites: "H13",
    file: TURNS,
    find: `this.#left = PER_TURN;
    if`,
    put: `this.#left = this.#count + PER_TURN;
    if`,
    unit: "test/unit/gateway/turns.test.ts",
  },
  {
    name: "begins with whoever came first, however many its address has",
    cites: "H13",
    file: TURNS,
    find: `Math.min(others, LAST)`,
    put: `Math.min(others, 0)`,
    unit: "test/unit/gateway/turns.test.ts",
  },
  {
    name: "lets those wait for ever before whom others come again and again",
    cites: "H13",
    file: TURNS,
    find: `if (this.#begun % OLDEST_EACH === 0)`,
    put: `if (this.#begun < 0)`,
    unit: "test/unit/gateway/turns.test.ts",
  },
  {
    name: "begins connections in the order in which the system hands them over",
    cites: "H13",
    file: CONNECTIONS,
    find: `new Turns(GATHER_MS)`,
    put: `new Turns()`,
    unit: IN_TURNS,
  },
  {
    name: "reads a connection before anybody listens",
    cites: "H13",
    file: CONNECTIONS,
    find: `Object.assign(server, { pauseOnConnect });`,
    put: `Object.assign(server, { pauseOnConnect: pauseOnConnect && false });`,
    unit: IN_TURNS,
  },
  {
    name: "keeps from TLS what it reads",
    cites: "H13",
    file: CONNECTIONS,
    find: `      pause(false);
`,
    put: ``,
    unit: IN_TURNS,
  },
  {
    name: "owes one connection any number of answers",
    cites: "H13",
    file: ANSWERS,
    find: `if (answers.length === MAX_OWED_ANSWERS) endWith(response, socket);`,
    put: ``,
    unit: PIPELINED,
  },
  {
    name: "waits for a body that cannot be read",
    cites: "H13",
    file: ANSWERS,
    find: `if (wasEnding) socket.destroySoon();`,
    put: ``,
    unit: PIPELINED,
  },
  {
    name: "leaves an answer open that was broken off before its turn",
    cites: "H13",
    file: ANSWERS,
    find: `if (isWaiting) response.once("socket", () => socket.destroy());`,
    put: ``,
    unit: PIPELINED,
  },
  {
    name: "lets one address wait for many places",
    cites: "H13",
    file: ROOM,
    find: `return this.#waitingByNetwork.of(network) === 0 && this.#waiting.size < MAX_WAITING_FREE;`,
    put: `return this.#waiting.size < MAX_WAITING_FREE;`,
    unit: IN_ROOM,
  },
  {
    name: "lets any number wait for places",
    cites: "H13",
    file: ROOM,
    find: `this.#waitingByNetwork.of(network) === 0 && this.#waiting.size < MAX_WAITING_FREE;`,
    put: `this.#waitingByNetwork.of(network) === 0;`,
    unit: IN_ROOM,
  },
  {
    name: "gives a place to a request before a payment",
    cites: "H13",
    file: ROOM,
    find: `const ahead = need === "payment" ? 0 : MAX_WAITING;`,
    put: `const ahead = 0;`,
    unit: IN_ROOM,
  },
  {
    name: "keeps a place for a client that has left",
    cites: "H13",
    file: ROOM,
    find: `const stop = comer.onGone(giveUp);`,
    put: `const stop = comer.onGone(() => undefined);`,
    unit: IN_ROOM,
  },
  {
    name: "forgets whose payments are refused",
    cites: "H13",
    file: LANE,
    find: `{ refused: hasPassed ? 0 : refused + 1, last }`,
    put: `{ refused: 0, last }`,
    unit: IN_LANE,
  },
  {
    name: "takes each refusal for a good payment",
    cites: "H13",
    file: MESH,
    find: `isGood: isOk }`,
    put: `isGood: () => true }`,
    unit: IN_MESH,
  },
  {
    name: "says that it is broken where it is crowded",
    cites: "H13",
    file: MESH,
    find: `      if (!(cause instanceof ChainError)) throw cause;
`,
    put: `      if (cause !== null) throw cause;
`,
    unit: IN_MESH,
  },
  {
    name: "reads a call's body for as long as it comes",
    cites: "H13",
    file: "src/facilitator/called-request.ts",
    find: `setTimeout(() => resolve(undefined), BODY_TIMEOUT_MS)`,
    put: `setTimeout(() => undefined, BODY_TIMEOUT_MS)`,
    unit: "test/unit/facilitator/called-request.test.ts",
  },
  {
    name: "counts a call no longer whose client has left",
    cites: "H13",
    file: "src/facilitator/endpoints.ts",
    find: `response.once("close", () => gone.abort());`,
    put: `response.once("close", () => (gone.abort(), place.leave()));`,
    unit: "test/unit/facilitator/endpoints-places.test.ts",
  },
  {
    name: "has its turn before a buyer whoever was never seen",
    cites: "H13",
    file: LANE,
    find: `this.#buyers.peek(client) === undefined ? 0 : 1`,
    put: `0`,
    unit: IN_LANE,
  },
  {
    name: "takes whoever has a payment judged for a buyer",
    cites: "H13",
    file: LANE,
    find: `else if (!client.startsWith(ANYBODY)) this.#buyers`,
    put: `else this.#buyers`,
    unit: IN_LANE,
  },
  {
    name: "takes a buyer whose payments are refused for one",
    cites: "H13",
    file: LANE,
    find: `if (!hasPassed) this.#buyers.delete(client);
      else if`,
    put: `if (hasPassed)
      if`,
    unit: IN_LANE,
  },
  {
    name: "waits for a trial that was never sent",
    cites: "H13",
    file: "src/facilitator/circuit.ts",
    find: `this.#trialUntilMs = now + TRIAL_MS;`,
    put: `this.#trialUntilMs = Number.POSITIVE_INFINITY;`,
    unit: "test/unit/facilitator/circuit.test.ts",
  },
  {
    name: "waits for the rest of a long call that it refused",
    cites: "H13",
    file: "src/facilitator/endpoints.ts",
    find: `if (!response.req.complete && isLong(response.req)) response.setHeader("Connection", "close");`,
    put: ``,
    unit: "test/unit/facilitator/endpoints-places.test.ts",
  },
  {
    name: "judges payments for which the queue has no room",
    cites: "H13",
    file: ENGINE,
    find: `if (this.#isFullFor(item)) return this.#run(this.#giveUp(item, FULL));`,
    put: ``,
    unit: IN_ENGINE,
  },
  {
    name: "queues any number of payments that are judged",
    cites: "H13",
    file: ENGINE,
    find: `if (this.#isFullFor(item)) throw FULL;`,
    put: ``,
    unit: IN_ENGINE,
  },
  {
    name: "takes offers for which it has no room",
    cites: "H13",
    file: ENGINE,
    find: `this.#queue.size + this.#accepting + this.#taking.size + this.#purses.size`,
    put: `this.#queue.size + this.#taking.size + this.#purses.size`,
    unit: IN_ENGINE,
  },
];
