/** About certificates: who gets which, who is led where, and what an authority may say (H21). */
import type { Mutant } from "./mutant.ts";

const HELD = "src/gateway/listener/held-certificates.ts";
const HELLO = "src/gateway/listener/hello.ts";
const REDIRECT = "src/gateway/listener/redirect.ts";
const AUTHORITY = "src/certificates/authority.ts";
const ACCOUNT = "src/certificates/account.ts";
const CERTIFICATES = "src/certificates/certificates.ts";
const ORDER = "src/certificates/order.ts";
const SCHEDULE = "src/certificates/schedule.ts";

const FILES = "src/gateway/listener/file-certificates.ts";
const NAMES = "src/http/certificate-names.ts";

const OF_LISTENERS = "test/unit/gateway/listener/held-certificates.test.ts";
const OF_ACCOUNTS = "test/unit/certificates/account.test.ts";
const OF_CERTIFICATES = "test/unit/certificates/certificates.test.ts";
const OF_AUTHORITIES = "test/unit/certificates/authority.test.ts";
const OF_ORDERS = "test/unit/certificates/order.test.ts";
const OF_FILES = "test/integration/gateway/listener/certificate.test.ts";
const OF_NAMES = "test/unit/http/certificate-names.test.ts";
const OF_PAUSES = "test/unit/certificates/schedule.test.ts";

export const CERTIFICATE_MUTANTS: readonly Mutant[] = [
  {
    name: "shows everybody what an authority looks for",
    cites: "H21",
    file: HELD,
    find: `if (!hello.includes(CHALLENGE_OFFER)) return pass(socket);`,
    put: ``,
    unit: OF_LISTENERS,
  },
  {
    name: "answers an authority when it is not expected any more",
    cites: "H21",
    file: HELD,
    find: `if (this.#challenges.size === 0) return pass(socket);`,
    put: ``,
    also: {
      file: HELD,
      find: `done(null, this.#challenges.get(name.toLowerCase())),`,
      put: `done(null, this.#challenges.get(name.toLowerCase()) ?? this.of(name)),`,
    },
    unit: OF_LISTENERS,
  },
  {
    name: "answers any path that begins as a challenge's",
    cites: "H21",
    file: HELD,
    find: `const answer = this.#answers.get(request.url ?? "");`,
    put: `const answer = [...this.#answers].find(([path]) => request.url?.startsWith(path))?.[1];`,
    unit: OF_LISTENERS,
  },
  {
    name: "waits for a record of any length",
    cites: "H21",
    file: HELLO,
    find: `arrived[0] === HANDSHAKE && length <= MAX_RECORD_BYTES`,
    put: `arrived[0] === HANDSHAKE`,
    unit: OF_LISTENERS,
  },
  {
    name: "waits for the first record for ever",
    cites: "H21",
    file: HELLO,
    find: `setTimeout(() => socket.destroy(), HELLO_MS)`,
    put: `setTimeout(() => undefined, HELLO_MS)`,
    unit: OF_LISTENERS,
  },
  {
    name: "leads to whatever host is asked for",
    cites: "H21",
    file: REDIRECT,
    find: `if (told === undefined || name === undefined) return this.#origin;`,
    put: `if (name === undefined) return this.#origin;`,
    also: { file: REDIRECT, find: `new URL(told);`, put: `new URL(told ?? this.#origin);` },
    unit: OF_LISTENERS,
  },
  {
    name: "leads to whatever is asked for, path or not",
    cites: "H21",
    file: REDIRECT,
    find: `if (PLAIN_TARGET.test(url)) {`,
    put: `if (url !== "") {`,
    unit: OF_LISTENERS,
  },
  {
    name: "reads all that an authority says",
    cites: "H21",
    file: AUTHORITY,
    find: `if (text.length > MAX_ANSWER_BYTES) {`,
    put: `if (text.length < 0) {`,
    unit: OF_AUTHORITIES,
  },
  {
    name: "asks an authority in the clear",
    cites: "H21",
    file: AUTHORITY,
    find: `if (!url.startsWith("https://")) throw new AuthorityFault("it names a URL that is not https");`,
    put: ``,
    unit: OF_AUTHORITIES,
  },
  {
    name: "logs an authority's words as they come",
    cites: "H21",
    file: AUTHORITY,
    find: `const shown = printable(said);`,
    put: `const shown = said;`,
    unit: OF_AUTHORITIES,
  },
  {
    name: "logs all of an authority's words",
    cites: "H21",
    file: AUTHORITY,
    find: `return shown.length > MAX_SAID ? \`\${shown.slice(0, MAX_SAID)}…\` : shown;`,
    put: `return shown;`,
    unit: OF_AUTHORITIES,
  },
  {
    name: "serves whatever certificate an authority gives",
    cites: "H21",
    file: ORDER,
    find: `  requireOurs(cert, key, domain);\n`,
    put: ``,
    unit: OF_ORDERS,
  },
  {
    name: "goes on with the order of another authority",
    cites: "H21",
    file: ORDER,
    find: `if (open?.directory === directory) {`,
    put: `if (open !== undefined) {`,
    unit: OF_ORDERS,
  },
  {
    name: "asks again and again at the same pace",
    cites: "H21",
    file: SCHEDULE,
    find: `2 ** Math.min(failures - 1, 30)`,
    put: `1`,
    unit: OF_PAUSES,
  },
  {
    name: "waits for as long as an authority says",
    cites: "H21",
    file: SCHEDULE,
    find: `Math.min(askedMs, LONGEST_ASKED_MS)`,
    put: `askedMs`,
    unit: OF_PAUSES,
  },
  {
    name: "gives the first certificate whatever name is asked for",
    cites: "H21",
    file: FILES,
    find: `return this.#byName.of(name)?.context;`,
    put: `return undefined;`,
    unit: OF_FILES,
  },
  {
    name: "goes by the names of a certificate that was replaced",
    cites: "H21",
    file: FILES,
    find: `const names = certificateNames(pair.cert);`,
    put: `const names = this.#used[index]?.names ?? certificateNames(pair.cert);`,
    unit: OF_FILES,
  },
  {
    name: "lets a wildcard stand for any number of labels",
    cites: "H21",
    file: NAMES,
    find: `return exact ?? (dot < 1 ? undefined : this.#names.get(\`*\${asked.slice(dot)}\`));`,
    put: `return exact ?? [...this.#names].find(([each]) => each.startsWith("*") && asked.endsWith(each.slice(1)))?.[1];`,
    unit: OF_NAMES,
  },
  {
    name: "serves the last of two certificates for one name",
    cites: "H21",
    file: NAMES,
    find: `if (!this.#names.has(name)) this.#names.set(name, value);`,
    put: `this.#names.set(name, value);`,
    unit: OF_NAMES,
  },
  {
    name: "orders by a clock that is ahead",
    cites: "H21",
    file: CERTIFICATES,
    find: `if (!isDue) throw clockFault(aheadMs);`,
    put: ``,
    unit: OF_CERTIFICATES,
  },
  {
    name: "gives up a good certificate for one that has ended",
    cites: "H21",
    file: CERTIFICATES,
    find: `if (!isWorse) await keep(`,
    put: `await keep(`,
    unit: OF_CERTIFICATES,
  },
  {
    name: "orders nothing by a clock that is ahead, the first certificate neither",
    cites: "H21",
    file: CERTIFICATES,
    find: `if (!isDue) throw clockFault(aheadMs);`,
    put: `throw clockFault(aheadMs);`,
    unit: OF_CERTIFICATES,
  },
  {
    name: "goes on with an account that counts no more",
    cites: "H21",
    file: ACCOUNT,
    find: `if (!(cause instanceof AuthorityFault) || cause.type !== REFUSED) throw cause;`,
    put: `throw cause;`,
    unit: OF_ACCOUNTS,
  },
  {
    name: "makes an account for whatever refusal",
    cites: "H21",
    file: ACCOUNT,
    find: `if (!(cause instanceof AuthorityFault) || cause.type !== REFUSED) throw cause;`,
    put: `if (!(cause instanceof AuthorityFault)) throw cause;`,
    unit: OF_ACCOUNTS,
  },
  {
    name: "makes one account after the other",
    cites: "H21",
    file: ACCOUNT,
    find: `if (Math.abs(time.now() - (known.askedMs ?? 0)) < ASK_EVERY_MS) {`,
    put: `if (ASK_EVERY_MS < 0) {`,
    unit: OF_ACCOUNTS,
  },
  {
    name: "asks for an account before that is kept",
    cites: "H21",
    file: ACCOUNT,
    find: `    await note(known.key);\n`,
    put: ``,
    unit: OF_ACCOUNTS,
  },
  {
    name: "lets go of the account before for one that does not count",
    cites: "H21",
    file: ACCOUNT,
    find: `await note(known.key);`,
    put: `await note(key);`,
    unit: OF_ACCOUNTS,
  },
];
