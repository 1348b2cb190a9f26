/**
 * Passwords and tokens that stand in the file itself, where whoever may read the configuration has them, and the history
 * of a repository keeps them. They are masked wherever the file is quoted (`reading/mask.ts`).
 */
import type { Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";
import type { Path } from "./reading/tree.ts";

/** What says that a value comes from elsewhere, with no default that would stand for it. */
const FROM_ELSEWHERE = /\$\{\w+(?::-)?\}/;
/** Characters of a value that are looked at: the expressions take longer than a value is. */
const MAX_LOOKED_AT = 4_096;
/** Header fields that prove who asks. */
const SECRET_HEADER =
  /(?:^|-)(?:authorization|auth|cookie|token|secret|password|credentials?|(?<!idempotency-)(?:api)?key)$/i;
/** What does so whatever the field is called: a scheme, or how well-known keys begin. */
const SECRET_VALUE = /^["']?(?:(?:Bearer|Basic|Token)\s|sk[-_]|ghp_|xox[a-z]-)/i;
/** The secret of a URL: its password, or what the name of a query says that it is. */
const SECRETS_OF_URLS = [
  /:\/\/[^/?#@\s]*:([^@\s]+)@/,
  /[?&][\w-]*(?:key|token|secret|password|auth)=([^&#\s"']+)/i,
];
/** How providers write keys into the paths of endpoints: a name that nobody would choose. */
const SECRET_NAME = /(?<=[^/]\/)((?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,})(?=[/?"']|$)/;

export function warnOfLiteralSecrets(context: Context): void {
  const { tree, problems } = context;
  const below = (path: Path): readonly Path[] => tree.keys(path).map((key) => [...path, key]);
  const each = (path: Path): readonly Path[] => {
    const list = tree.find(path);
    const elements = list?.kind === "sequence" ? list.elements.filter((one) => !one.refused) : [];
    return elements.map((_, index) => [...path, index]);
  };
  const networks = below(["facilitator", "embedded", "networks"]).map((path) => [...path, "rpc"]);
  const store = tree.find(["store"])?.kind === "mapping" ? ["store", "url"] : ["store"];
  const endpoints = [...networks, ...below(["facilitator", "rpc"])].flatMap(each);
  const tokens = [
    ["facilitator", "auth", "bearer"],
    ...below(["facilitator", "auth", "gateways"]).map((path) => [...path, "bearer"]),
  ];
  const headers = [
    ...each(["facilitator", "remote"]).flatMap((path) => below([...path, "headers"])),
    ...below(["upstreams"]).flatMap((path) => below([...path, "headers", "set"])),
  ];
  const variables = [["upstream"], ...below(["upstreams"])].flatMap((path) =>
    below([...path, "command", "env"]),
  );
  const found = [
    ...[store, ...endpoints].filter((path) =>
      SECRETS_OF_URLS.some((part) => isLiteral(part, path, context)),
    ),
    ...endpoints.filter((path) => isLiteral(SECRET_NAME, path, context)),
    ...tokens.filter((path) => isLiteral(/^(.+)$/s, path, context)),
    ...[...headers, ...variables].filter((path) => {
      // Variables have underscores where header fields have dashes.
      const name = String(path.at(-1)).replaceAll("_", "-");
      const isSecret = SECRET_HEADER.test(name) || SECRET_VALUE.test(context.written(path));
      return isSecret && isLiteral(/^(.+)$/s, path, context);
    }),
  ];
  for (const path of found) {
    const message = "has a password or token in it, for whoever may read this file";
    const hint = 'write a variable for it, "${NAME}": NAME holds it then, or the file of NAME_FILE';
    problems.add("warning", path, fault("literal-secret", message, hint));
  }
}

/** Whether the part of a value that an expression finds is written out. */
function isLiteral(part: RegExp, path: Path, context: Context): boolean {
  if (!context.tree.stands(path)) return false;
  const found = part.exec(context.written(path).slice(0, MAX_LOOKED_AT))?.[1];
  return found !== undefined && !FROM_ELSEWHERE.test(found);
}
