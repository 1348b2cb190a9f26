/** The committed JSON Schema in the hands of the real YAML language server, as an editor runs it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { environment } from "../../unit/config/fixture.ts";
import { mistakes, plant, SOUND } from "../../unit/config/mistakes/mistakes.ts";
import { YamlEditor } from "./yaml-editor.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SCHEMA = pathToFileURL(join(ROOT, "config/gateway.schema.json")).href;
const MODELINE = `# yaml-language-server: $schema=${SCHEMA}\n`;
const GOLDEN = join(ROOT, "test/unit/config/golden");
const SHIPPED = [
  ...readdirSync(join(ROOT, "config"))
    .filter((name) => name.endsWith(".yaml"))
    .map((name) => `config/${name}`),
  "deploy/gateway/gateway.yaml",
  "deploy/kubernetes/gateway.yaml",
  "deploy/sidecar/gateway.yaml",
  "deploy/systemd/gateway.yaml",
];
/** Faults of which a schema cannot know: they lie in what values mean, or mean together. */
const BEYOND_A_SCHEMA: ReadonlySet<string> = new Set([
  "address-taken",
  "bad-checksum",
  "bad-header",
  "bad-price",
  "duplicate-route",
  "malformed-key",
  "no-amount",
  "no-price",
  "unknown-asset",
  "unknown-method",
  "unknown-upstream",
  "unset-variable",
  "unused-key",
]);

/** Planted values that have the right form and are wrong all the same. */
const TOO_FINE_FOR_A_SCHEMA = [
  "support is half a URL",
  "support is too long",
  "a port beyond the last",
  "a range with bits behind its prefix",
  "a check that outlasts its interval",
  "a Solana payee with a letter less",
  "a method twice",
];

let editor: YamlEditor;
let opened = 0;

beforeAll(async () => {
  editor = await YamlEditor.start();
});

afterAll(async () => {
  await editor[Symbol.asyncDispose]();
});

/** What the editor marks in a file of its own. */
async function marks(text: string): Promise<readonly string[]> {
  opened += 1;
  const found = await editor.open(`/tmp/coinslot-editor/${opened}.yaml`, MODELINE + text);
  return found.map(({ message, range }) => `${range.start.line}: ${message}`);
}

function isAccepted(text: string): boolean {
  return parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment }).ok;
}

describe("an editor", () => {
  test.each(SHIPPED)("marks nothing in %s, which names its schema", async (name) => {
    const path = join(ROOT, name);
    const text = readFileSync(path, "utf8");

    const found = await editor.open(path, text);

    expect(text).toMatch(/^# yaml-language-server: \$schema=\S+gateway\.schema\.json\n/);
    expect(found).toEqual([]);
  });

  test.each(SHIPPED)("marks a fault that is planted into %s", async (name) => {
    const path = join(ROOT, name.replace(".yaml", ".faulty.yaml"));
    const text = readFileSync(join(ROOT, name), "utf8");

    const found = await editor.open(path, `${text}\nshutdwn: 30s\n`);

    expect(found).toMatchObject([
      { message: "Property shutdwn is not allowed.", range: { start: { character: 0 } } },
    ]);
  });

  test("marks nothing in what check accepts", { timeout: 60_000 }, async () => {
    const accepted = readdirSync(GOLDEN)
      .map((name) => [name, readFileSync(join(GOLDEN, name), "utf8").split(/^=+\n/m)[0] ?? ""])
      .filter(([, text = ""]) => isAccepted(text));

    const found = await Promise.all(
      [...accepted, ["sound", SOUND]].map(async ([name, text = ""]) => [name, await marks(text)]),
    );
    expect(accepted.length).toBeGreaterThanOrEqual(30);
    expect(found.filter(([, each = []]) => each.length > 0)).toEqual([]);
  });

  test("marks each fault of which a schema can know", { timeout: 60_000 }, async () => {
    const faults = mistakes("values.txt").filter(({ code }) => !BEYOND_A_SCHEMA.has(code));
    const missed = await Promise.all(
      faults.map(async (fault) => {
        const found = await marks(plant(fault).text);
        return found.length === 0 ? [fault.what] : [];
      }),
    );

    expect(faults.length).toBeGreaterThan(40);
    expect(missed.flat()).toEqual(TOO_FINE_FOR_A_SCHEMA);
  });

  test("wants with routes what check wants, and not without", async () => {
    const gateway = "routes: { GET /weather: free }\n";
    const facilitator =
      "facilitator: { listen: 4021, remote: [https://facilitator.example.com] }\n";

    expect(await marks(gateway)).toEqual([
      expect.stringContaining("publicUrl"),
      expect.stringContaining("unmatched"),
    ]);
    expect(await marks(facilitator)).toEqual([]);
    expect(await marks(`${facilitator}routes: {}\n`)).toEqual([]);
  });

  test("says what a value should look like", async () => {
    expect(await marks("shutdown: 30 seconds\n")).toEqual([
      expect.stringContaining("must be a duration such as 500ms, 30s, 10m or 1h"),
    ]);
  });
});

/** What is offered at the | of a text. */
async function offers(text: string): Promise<ReadonlyMap<string, string>> {
  opened += 1;
  const path = `/tmp/coinslot-editor/${opened}.yaml`;
  const [before = "", after = ""] = (MODELINE + text).split("|");
  await editor.open(path, before + after);
  const lines = before.split("\n");
  const found = await editor.complete(path, lines.length - 1, lines.at(-1)?.length ?? 0);
  return new Map(
    found.map(({ label, documentation = "" }) => [
      label,
      typeof documentation === "string" ? documentation : documentation.value,
    ]),
  );
}

describe("an editor offers", () => {
  test("the keys of the file, each with what it means", async () => {
    const keys = await offers("upstream: http://localhost:3000\n|\n");

    expect([...keys.keys()]).toEqual(
      expect.arrayContaining(["publicUrl", "payTo", "accept", "facilitator", "routes", "limits"]),
    );
    expect(keys.get("publicUrl")).toContain("The address under which buyers reach the gateway");
    expect(keys.has("upstream")).toBe(false);
  });

  test("the keys of a route, each with what it means", async () => {
    const keys = await offers("routes:\n  GET /weather:\n    price: $0.01\n    |\n");

    expect([...keys.keys()]).toEqual(
      expect.arrayContaining(["description", "mimeType", "maxTimeoutSeconds", "upstream"]),
    );
    expect(keys.get("maxTimeoutSeconds")).toContain("How long a payment may take");
    expect([...keys.values()].every((text) => text.length > 10)).toBe(true);
  });

  test("the keys of an upstream and of an embedded network", async () => {
    const upstream = await offers("upstreams:\n  api:\n    targets: [http://localhost:1]\n    |\n");
    const network = await offers(
      "facilitator:\n  embedded:\n    networks:\n      base:\n        rpc: [https://x.example]\n        |\n",
    );

    expect([...upstream.keys()]).toEqual(expect.arrayContaining(["balance", "health", "retry"]));
    expect([...network.keys()]).toEqual(expect.arrayContaining(["signers", "confirmations"]));
  });

  test("the words that a value may be", async () => {
    expect([...(await offers("unmatched: |\n")).keys()]).toEqual(["deny", "free"]);
    expect([...(await offers("accept:\n  - |\n")).keys()]).toEqual(
      expect.arrayContaining(["base", "base-sepolia", "solana"]),
    );
    expect([...(await offers("logging:\n  level: |\n")).keys()]).toContain("debug");
  });

  test("the networks, as names of keys", async () => {
    const keys = await offers("facilitator:\n  embedded:\n    networks:\n      |\n");

    expect([...keys.keys()]).toEqual(expect.arrayContaining(["base", "solana-devnet"]));
  });

  test("an explanation of the key under the pointer", async () => {
    const path = "/tmp/coinslot-editor/hover.yaml";
    await editor.open(path, `${MODELINE}unmatched: deny\n`);

    expect(await editor.hover(path, 1, 3)).toContain("What happens to every other request");
  });
});
