/** What a tree of sources looks like, counted from its syntax: sizes, names, private functions, arrows. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { parseAst } from "rolldown/parseAst";

export interface Structure {
  readonly files: number;
  /** Lines that are neither empty nor comments. */
  readonly codeLines: number;
  /** Types and classes whose name stands in two files or more, of all such names. */
  readonly sharedNames: Share;
  /** Functions and methods that nobody outside sees, and that have one caller. */
  readonly loneHelpers: Share;
  /** Methods that a ledger has beside its two books. */
  readonly ledgerMethods: number;
  /** Files that say what the transition `delivering` is. */
  readonly spellings: readonly string[];
  /** `WeakMap`s and `WeakSet`s by what was asked or paid. */
  readonly weakMaps: number;
  /** Groups of files that import each other, types included. */
  readonly cycles: readonly (readonly string[])[];
}

export interface Share {
  readonly count: number;
  readonly of: number;
}

/** Any node of the syntax tree. */
interface Syntax {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [member: string]: unknown;
}

interface Source {
  readonly path: string;
  readonly text: string;
  readonly nodes: readonly Syntax[];
  readonly comments: readonly Syntax[];
}

/** @param root of a checkout; what is counted is its `src` */
export function structureOf(root: string): Structure {
  const src = join(root, "src");
  const sources = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => read(join(src, name)));
  return {
    files: sources.length,
    codeLines: sources.reduce((sum, source) => sum + codeLinesOf(source), 0),
    sharedNames: sharedNamesOf(sources),
    loneHelpers: loneHelpersOf(sources),
    ledgerMethods: ledgerMethodsOf(sources),
    spellings: sources.filter(spells).map(({ path }) => relative(root, path)),
    weakMaps: sources
      .filter(({ path }) => MONEY.test(path))
      .reduce((sum, { text }) => sum + count(text, WEAK), 0),
    cycles: cyclesOf(sources).map((group) => group.map((path) => relative(src, path))),
  };
}

const WEAK = /new Weak(?:Map|Set)<(?:object|\w*(?:Authorization|Request))\b/g;
/** Where money is spoken of. */
const MONEY = /\/(?:facilitator|ledger|mechanism|x402|payments)\//;

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}

function read(path: string): Source {
  const text = readFileSync(path, "utf8");
  const nodes: Syntax[] = [];
  visit(parseAst(text, { lang: "ts" }), (node) => nodes.push(node));
  return { path, text, nodes, comments: commentsOf(text, nodes) };
}

function visit(value: unknown, told: (node: Syntax) => void): void {
  if (Array.isArray(value)) {
    for (const each of value) visit(each, told);
  } else if (isSyntax(value)) {
    told(value);
    for (const [name, member] of Object.entries(value)) if (name !== "parent") visit(member, told);
  }
}

function isSyntax(value: unknown): value is Syntax {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

/** Texts may hold what looks like a comment: these are passed over. */
function commentsOf(text: string, nodes: readonly Syntax[]): readonly Syntax[] {
  const literals = nodes
    .filter(({ type }) => type === "Literal" || type === "TemplateElement")
    .map(({ start, end }) => [start, end] as const);
  return [...text.matchAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g)]
    .filter(({ index }) => !literals.some(([start, end]) => start <= index && index < end))
    .map(({ 0: { length }, index }) => ({ type: "Comment", start: index, end: index + length }));
}

function codeLinesOf({ text, comments }: Source): number {
  let code = text;
  for (const { start, end } of comments.toReversed()) {
    code =
      code.slice(0, start) + code.slice(start, end).replaceAll(/[^\n]/g, " ") + code.slice(end);
  }
  return code.split("\n").filter((line) => line.trim() !== "").length;
}

const TYPES = new Set(["TSInterfaceDeclaration", "TSTypeAliasDeclaration", "ClassDeclaration"]);

function sharedNamesOf(sources: readonly Source[]): Share {
  const files = new Map<string, Set<string>>();
  for (const { path, nodes } of sources) {
    for (const node of nodes) {
      const name = TYPES.has(node.type) ? nameOf(node["id"]) : undefined;
      if (name !== undefined) files.set(name, (files.get(name) ?? new Set()).add(path));
    }
  }
  const shared = [...files.values()].filter(({ size }) => size > 1);
  return { count: shared.length, of: files.size };
}

function nameOf(node: unknown): string | undefined {
  return isSyntax(node) && typeof node["name"] === "string" ? node["name"] : undefined;
}

/** A function that a file does not export, or a `#method`; a getter is read, not called. */
function loneHelpersOf(sources: readonly Source[]): Share {
  let [lone, all] = [0, 0];
  for (const { nodes } of sources) {
    const exported = new Set<unknown>(
      nodes.flatMap((node) =>
        node.type === "ExportNamedDeclaration" ? [node["declaration"]] : [],
      ),
    );
    const named = (kind: string): string[] =>
      nodes.flatMap((node) => (node.type === kind ? (nameOf(node) ?? []) : []));
    const identifiers = tally(named("Identifier"));
    const privates = tally(named("PrivateIdentifier"));
    for (const node of nodes) {
      const isFunction = node.type === "FunctionDeclaration" && !exported.has(node);
      const isMethod = node.type === "MethodDefinition" && node["kind"] === "method";
      const key = isFunction ? node["id"] : isMethod ? node["key"] : undefined;
      const isPrivate = isFunction || (isSyntax(key) && key.type === "PrivateIdentifier");
      const name = isPrivate ? nameOf(key) : undefined;
      if (name === undefined) continue;
      all += 1;
      const uses = ((isFunction ? identifiers : privates).get(name) ?? 0) - 1;
      if (uses === 1) lone += 1;
    }
  }
  return { count: lone, of: all };
}

function tally(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** Of `Ledger`, with all that it extends. */
function ledgerMethodsOf(sources: readonly Source[]): number {
  const interfaces = new Map<string, Syntax>();
  for (const { path, nodes } of sources) {
    if (!path.includes("/ledger/")) continue;
    for (const node of nodes) {
      const name = node.type === "TSInterfaceDeclaration" ? nameOf(node["id"]) : undefined;
      if (name !== undefined) interfaces.set(name, node);
    }
  }
  const methods = new Set<string>();
  const collect = (name: string): void => {
    const found = interfaces.get(name);
    if (found === undefined) return;
    visit(found["body"], (node) => {
      const key = node.type === "TSMethodSignature" ? nameOf(node["key"]) : undefined;
      if (key !== undefined) methods.add(key);
    });
    visit(found["extends"], (node) => {
      if (node.type === "Identifier") collect(nameOf(node) ?? "");
    });
  };
  collect("Ledger");
  return methods.size;
}

/** Where it is declared, implemented, or passed on by its name; not where somebody asks for it. */
function spells({ nodes }: Source): boolean {
  return nodes.some((node) => {
    const isMember = /^(?:TSMethodSignature|MethodDefinition|TSPropertySignature|Property)$/.test(
      node.type,
    );
    return isMember && nameOf(node["key"]) === "delivering";
  });
}

/** Groups of more than one file, by Tarjan. */
function cyclesOf(sources: readonly Source[]): readonly (readonly string[])[] {
  const arrows = new Map(
    sources.map(({ path, nodes }) => [path, nodes.flatMap((node) => importedBy(node, path))]),
  );
  const [order, low, stack] = [
    new Map<string, number>(),
    new Map<string, number>(),
    [] as string[],
  ];
  const groups: string[][] = [];
  const walk = (path: string): void => {
    order.set(path, order.size);
    low.set(path, order.get(path) ?? 0);
    stack.push(path);
    for (const next of arrows.get(path) ?? []) {
      if (!arrows.has(next)) continue;
      if (!order.has(next)) walk(next);
      else if (!stack.includes(next)) continue;
      low.set(path, Math.min(low.get(path) ?? 0, low.get(next) ?? 0));
    }
    if (low.get(path) !== order.get(path)) return;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1) groups.push(group);
  };
  for (const path of arrows.keys()) if (!order.has(path)) walk(path);
  return groups;
}

function importedBy(node: Syntax, path: string): readonly string[] {
  if (
    !/^(?:ImportDeclaration|ExportNamedDeclaration|ExportAllDeclaration|ImportExpression|TSImportType)$/.test(
      node.type,
    )
  )
    return [];
  const source = node["source"];
  const value = isSyntax(source) ? source["value"] : undefined;
  if (typeof value !== "string" || !value.startsWith(".")) return [];
  return [resolve(dirname(path), value)];
}
