/** Every key of the configuration as a paper: `npm run -s paper`, made from the schema that editors use. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { restartKeys } from "../../src/config/restart-keys.ts";

const FOLDER = join(import.meta.dirname, "../../config");
export const PAPER = join(FOLDER, "README.md");

/** As much of JSON Schema as ours is written in. */
interface Schema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

const HEAD = `# The configuration

One YAML file says everything. [gateway.example.yaml](gateway.example.yaml) shows every key with a comment;
[minimal.yaml](minimal.yaml) is a gateway that settles through somebody else's facilitator,
[facilitator.yaml](facilitator.yaml) a facilitator without a gateway, [solana.yaml](solana.yaml) and
[several-upstreams.yaml](several-upstreams.yaml) are what their names say. Editors check a file as it is written by
[gateway.schema.json](gateway.schema.json); \`npm run -s coinslot -- check FILE\` finds what no schema can say; with
\`--no-secrets\` it does so where no keys and variables are.

Secrets are \`env:NAME\` or \`file:PATH\`. Times are written 500ms, 30s, 10m or 1h, sizes 512B, 16KiB or 10MiB.

This page is made of the schema (\`npm run -s paper\`). \`NAME\` stands for a name of yours, \`[]\` for each of a list.
`;

/** What only a restart changes, from the list by which a reload is refused. */
function restartPart(): string {
  const lines = restartKeys().map((line) => `- ${line.replace(/^[^:]+/, "`$&`")}.`);
  return `
## What wants a restart

A running gateway takes up every other key when the file changes, on SIGHUP and by \`coinslot reload\`: prices, payees,
networks, endpoints, signers and facilitators too. A file that changes one of these is refused as a whole, and the verdict
names the key:

${lines.join("\n")}

A gateway cannot become a facilitator without routes either, nor the other way round.
`;
}

/** The text of the paper. */
export function configPaper(): string {
  const schema = readSchema();
  const sections = Object.entries(schema.properties ?? {}).map(([key, each]) => {
    const lines = [...new Map(keysBelow(each, key)).entries()].map(
      ([path, said]) => `- \`${path}\`: ${said}`,
    );
    const below = lines.length === 0 ? "" : `\n${lines.join("\n")}\n`;
    return `\n## ${key}\n\n${each.description ?? ""}\n${below}`;
  });
  return HEAD + restartPart() + sections.join("");
}

/** All keys below which there are no others. */
export function configKeys(): readonly string[] {
  const all = Object.entries(readSchema().properties ?? {}).flatMap(([key, each]) => [
    key,
    ...keysBelow(each, key).map(([path]) => path),
  ]);
  const isParent = (key: string): boolean =>
    all.some((other) => other.startsWith(`${key}.`) || other.startsWith(`${key}[`));
  return [...new Set(all)].filter((key) => !isParent(key));
}

function readSchema(): Schema {
  return JSON.parse(readFileSync(join(FOLDER, "gateway.schema.json"), "utf8"));
}

/** Each key with what is said of it; one that stands in several forms of its parent is told once. */
function keysBelow(schema: Schema, path: string): [path: string, said: string][] {
  const {
    properties = {},
    additionalProperties,
    patternProperties = {},
    items,
    anyOf = [],
  } = schema;
  const maps = [additionalProperties, ...Object.values(patternProperties)];
  return [
    ...Object.entries(properties).flatMap(([key, each]): [string, string][] => {
      const said: [string, string][] = [[`${path}.${key}`, each.description ?? ""]];
      return [...said, ...keysBelow(each, `${path}.${key}`)];
    }),
    ...maps.flatMap((each) => (typeof each === "object" ? keysBelow(each, `${path}.NAME`) : [])),
    ...(items === undefined ? [] : keysBelow(items, `${path}[]`)),
    ...anyOf.flatMap((each) => keysBelow(each, path)),
  ];
}

if (process.argv[1] === import.meta.filename) writeFileSync(PAPER, configPaper());
