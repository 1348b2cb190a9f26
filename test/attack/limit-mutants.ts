/** About what a stranger may hold, and what it may make us ask the chain (H11, H13 and H17). */
import type { Mutant } from "./mutant.ts";

const LINES = "src/gateway/message/field-lines.ts";
const ROOM = "src/gateway/room.ts";
const LINGERING = "src/gateway/listener/lingering.ts";
const HTTP2_LINGERING = "src/gateway/listener/http2-lingering.ts";
const ASKING = "src/gateway/challenge.ts";

export const LIMIT_MUTANTS: readonly Mutant[] = [
  {
    name: "gives all places to one address",
    cites: "H13",
    file: "src/fairness/counts.ts",
    find: `return this.of(name) < most - this.#total;`,
    put: `return this.#total < most;`,
    topics: ["places"],
  },
  {
    name: "gives each address of a network the places of one",
    cites: "H13",
    file: ROOM,
    find: `const network = networkOf(address);
    const usable`,
    put: `const network = address;
    const usable`,
    topics: ["places"],
  },
  {
    name: "keeps no place for payments",
    cites: "H13",
    file: ROOM,
    find: `if (need === "payment") return most;`,
    put: `if (most > 0) return most;`,
    topics: ["places"],
  },
  {
    name: "leaves places to whoever stalls",
    cites: "H13",
    file: ROOM,
    find: `const STALLED_MS = 3_000;`,
    put: `const STALLED_MS = 3_000_000;`,
    topics: ["places"],
  },
  {
    name: "gives no place back",
    cites: "H13",
    file: ROOM,
    find: `      this.#leave(place);
      this.#serveWaiting();`,
    put: ``,
    topics: ["places"],
  },
  {
    name: "leaves connections to whoever has them",
    cites: "H13",
    file: "src/gateway/listener/connection-table.ts",
    find: `this.#open.size < this.#most ? 0 : this.#makeRoom(connection.network)`,
    put: `0`,
    topics: ["places"],
  },
  {
    name: "closes on what a client still sends",
    cites: "H13",
    file: "src/gateway/listener/answers-in-turn.ts",
    find: `if (hasRequestBody(request)) lingering.await(request, response);`,
    put: ``,
    unit: "test/unit/gateway/listener/lingering.test.ts",
  },
  {
    name: "reads on without an end what nobody wants",
    cites: "H13",
    file: LINGERING,
    find: `if (socket.bytesRead - bytesRead > MOST_BYTES) socket.destroy();`,
    put: ``,
    unit: "test/unit/gateway/listener/lingering.test.ts",
  },
  {
    name: "lets whoever sends on keep others from it",
    cites: "H13",
    file: LINGERING,
    find: `if (this.#sweep.size >= MOST) this.#makeRoom();`,
    put: ``,
    unit: "test/unit/gateway/listener/lingering.test.ts",
  },
  {
    name: "tells clients of HTTP/2 a price that they cannot read",
    cites: "H13",
    file: "src/gateway/listener/http2-response.ts",
    find: `!this.#request.complete && isUpload(this.#request.headers)`,
    put: `false`,
    unit: "test/integration/gateway/listener/http2-uploads.test.ts",
  },
  {
    name: "lets a refused upload over HTTP/2 keep its place",
    cites: "H13",
    file: "src/gateway/listener/http2-response.ts",
    find: `      this.#isFinished = true;
      this.#events.emit("finish");
    });`,
    put: `    });`,
    unit: "test/integration/gateway/listener/http2-uploads.test.ts",
  },
  {
    name: "waits for ever for the end of an upload over HTTP/2",
    cites: "H13",
    file: HTTP2_LINGERING,
    find: `now - heardAt > SILENT_MS`,
    put: `now < heardAt`,
    unit: "test/unit/gateway/listener/http2-lingering.test.ts",
  },
  {
    name: "waits for uploads over HTTP/2 of any size",
    cites: "H13",
    file: HTTP2_LINGERING,
    find: ` && bytes <= MOST_BYTES`,
    put: ``,
    unit: "test/unit/gateway/listener/http2-lingering.test.ts",
  },
  {
    name: "waits for any number of uploads over HTTP/2",
    cites: "H13",
    file: HTTP2_LINGERING,
    find: `if (this.#sweep.size >= MOST) this.#makeRoom();`,
    put: ``,
    unit: "test/unit/gateway/listener/http2-lingering.test.ts",
  },
  {
    name: "queues whatever nobody takes",
    cites: "H13",
    file: "src/gateway/listener/unread-answers.ts",
    find: `return this.#bytes > this.#most;`,
    put: `return this.#bytes > 1000 * this.#most;`,
    topics: ["places"],
  },
  {
    name: "asks the chain about what can never fit",
    cites: "H13",
    file: "src/mechanism/evm/authorization.ts",
    find: `(denied ?? unprovenFault(authorization, fault))`,
    put: `(denied ?? null)`,
    topics: ["junk-payments"],
  },
  {
    name: "asks the chain what it was told a moment ago",
    cites: "H13",
    file: "src/mechanism/evm/wallet-inspection.ts",
    find: `this.#codeless.set(authorization.from, { at: clock(), isMistaken });`,
    put: ``,
    topics: ["junk-payments"],
  },
  {
    name: "lets any number of junk payments wait for the chain",
    cites: "H13",
    file: "src/fairness/fair-lane.ts",
    find: `if (!this.#places.hasShare(client, calls + waiting)) throw fault("crowded");`,
    put: `if (this.#places.total > 100_000) throw fault("crowded");`,
    topics: ["junk-payments"],
  },
  {
    name: "asks the chain about any number of refused payments of one address",
    cites: "H13",
    file: ASKING,
    find: `if (isRefused) this.#unpaid.count(address, "unproven");`,
    put: ``,
    topics: ["junk-payments"],
  },
  {
    name: "counts junk payments when they are over",
    cites: "H13",
    file: ASKING,
    find: `        this.#doubted.change(network, 1);
`,
    put: ``,
    also: {
      file: ASKING,
      find: `        this.#doubted.change(network, -1);
`,
      put: ``,
    },
    topics: ["junk-payments"],
  },
  {
    name: "knows one targeted form of Cache-Control only",
    cites: "H11",
    file: LINES,
    find: `/-cache-control$|^(?:surrogate-.*|`,
    put: `/^(?:cdn-cache-control|surrogate-.*|`,
    topics: ["sales"],
  },
  {
    name: "lets surrogates keep what was paid for",
    cites: "H11",
    file: LINES,
    find: `^(?:surrogate-.*|x-accel-expires|`,
    put: `^(?:x-accel-expires|`,
    topics: ["sales"],
  },
  {
    name: "lets a trailer keep what was paid for",
    cites: "H11",
    file: LINES,
    find: `if (toClientUncached.passes(name) && !neverTrailers.has(lower) && !removed.has(lower)) {`,
    put: `if (toClient.passes(name) && !removed.has(lower)) {`,
    topics: ["sales"],
  },
  {
    name: "gives one client's cookies to whoever has its address",
    cites: "H11",
    file: "src/gateway/upstream/kept-answer.ts",
    find: `if (name.toLowerCase() !== "set-cookie") headers.push(`,
    put: `if (name !== "") headers.push(`,
    topics: ["sales"],
  },
  {
    name: "lets the backend forge in an interim answer",
    cites: "H17",
    file: LINES,
    find: `const lines = responseLines(raw, [], [], removed);`,
    put: `const lines = removed.size === 0 ? [...raw] : [];`,
    topics: ["odd-names"],
  },
];
