/** About what changes on the way to a backend: paths, Host and lines (H1, H4, H5 and H17). */
import type { Mutant } from "./mutant.ts";

const REWRITING = "src/gateway/upstream/backend/rewriting.ts";
const LINES = "src/gateway/message/field-lines.ts";

const TOPICS = ["rewriting"];

export const REWRITING_MUTANTS: readonly Mutant[] = [
  {
    name: "sends the path that it does not have at the backend",
    cites: "H1",
    file: REWRITING,
    find: `if (strip === "") return prefix + target;`,
    put: `if (strip === "") return target;`,
    topics: TOPICS,
  },
  {
    name: "strips within a segment",
    cites: "H1",
    file: REWRITING,
    find: `const isWhole = target.length === strip.length || next === QUESTION_MARK;`,
    put: `const isWhole = next !== SLASH;`,
    unit: "test/unit/gateway/upstream/backend/rewriting.test.ts",
  },
  {
    name: "sends a path that does not begin with what is stripped",
    cites: "H1",
    file: REWRITING,
    find: `if (!target.startsWith(strip)) return null;`,
    put: `if (!target.startsWith(strip)) return prefix + target;`,
    unit: "test/unit/gateway/upstream/backend/rewriting.test.ts",
  },
  {
    name: "preserves any Host",
    cites: "H4",
    file: REWRITING,
    find: `return host !== undefined && HOST.test(host) ? host : null;`,
    put: `return host ?? null;`,
    topics: TOPICS,
  },
  {
    name: "lets a line of the client's stand beside one that is set",
    cites: "H17",
    file: LINES,
    find: `if (isRemoved(removed, name) || isSet(name, added)) continue;`,
    put: `if (isRemoved(removed, name)) continue;`,
    topics: TOPICS,
  },
  {
    name: "lets a line that is removed cross to the backend",
    cites: "H17",
    file: LINES,
    find: `if (isRemoved(removed, name) || isSet(name, added)) continue;`,
    put: `if (isSet(name, added)) continue;`,
    topics: TOPICS,
  },
  {
    name: "lets a trailer stand for a line that is set or removed",
    cites: "H17",
    file: LINES,
    find: `if (lowerCase.startsWith("if-") || removed.has(lowerCase) || isSet(name, added)) continue;`,
    put: `if (lowerCase.startsWith("if-")) continue;`,
    topics: TOPICS,
  },
  {
    name: "lets a line that is removed cross to the client",
    cites: "H17",
    file: LINES,
    find: `    if (isRemoved(removed, name)) continue;
`,
    put: ``,
    topics: TOPICS,
  },
];
