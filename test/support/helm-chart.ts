/**
 * Renders the chart of `deploy/helm/coinslot` by the few words of Go templates that it uses, where no helm is installed. A
 * word that it does not know is an error, so that no template says more than was looked at.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";

export const CHART = join(import.meta.dirname, "../../deploy/helm/coinslot");

type Values = Readonly<Record<string, unknown>>;

/** The manifests of a release that is named `coinslot`, in the namespace of that name. */
export function renderChart(given: Values): readonly unknown[] {
  const values = merged(parse(readFileSync(join(CHART, "values.yaml"), "utf8")), given);
  const data = { Values: values, Release: { Name: "coinslot", Namespace: "coinslot" } };
  const folder = join(CHART, "templates");
  const texts = readdirSync(folder).map((name) =>
    render(readFileSync(join(folder, name), "utf8"), data),
  );
  return manifestsIn(texts.join("\n---\n"));
}

/** All documents of a text but for empty ones. */
export function manifestsIn(text: string): readonly unknown[] {
  return parseAllDocuments(text).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0] ?? new Error("no YAML");
    const whole: unknown = document.toJS();
    return whole === null ? [] : [whole];
  });
}

function merged(one: Values, other: Values): Values {
  const pairs = Object.entries(other).map(([name, value]) => {
    const below = one[name];
    return [name, isMap(value) && isMap(below) ? merged(below, value) : value];
  });
  return { ...one, ...Object.fromEntries(pairs) };
}

function isMap(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `{{` with its `-`, what is said, and `}}`. */
const ACTION = /(?:\s*\{\{-|\{\{) *(.+?) *\}\}/g;

function render(template: string, data: Values): string {
  let text = "";
  let end = 0;
  /** Whether what stands within each `if` is told. */
  const shown: boolean[] = [];
  const isShown = (): boolean => !shown.includes(false);
  for (const { index, 0: whole, 1: said = "" } of template.matchAll(ACTION)) {
    if (isShown()) text += template.slice(end, index);
    end = index + whole.length;
    if (said === "end") shown.pop();
    else if (said.startsWith("if not ")) shown.push(!valueOf(said.slice("if not ".length), data));
    else if (said.startsWith("if ")) shown.push(Boolean(valueOf(said.slice("if ".length), data)));
    else if (isShown()) text += piped(said, data);
  }
  if (shown.length > 0) throw new Error("an if without its end");
  return text + template.slice(end);
}

function piped(said: string, data: Values): string {
  const [first = "", ...pipes] = said.split(" | ");
  return pipes.reduce(
    (value: string, pipe) => {
      const [, spaces] = /^nindent (\d+)$/.exec(pipe) ?? [];
      if (spaces !== undefined) return `\n${value.replaceAll(/^/gm, " ".repeat(Number(spaces)))}`;
      if (pipe === "quote") return JSON.stringify(value);
      throw new Error(`no word of these templates: ${pipe}`);
    },
    wordOf(first, data),
  );
}

function wordOf(said: string, data: Values): string {
  const [, message, required] = /^required "([^"]+)" (\S+)$/.exec(said) ?? [];
  if (required !== undefined) {
    const value = valueOf(required, data);
    if (typeof value !== "string" || value === "") throw new Error(message);
    return value;
  }
  if (!said.startsWith("toYaml ")) return String(valueOf(said, data));
  return stringify(valueOf(said.slice("toYaml ".length), data)).trimEnd();
}

function valueOf(path: string, data: Values): unknown {
  if (!/^(?:\.\w+)+$/.test(path)) throw new Error(`no path of these templates: ${path}`);
  const [, ...names] = path.split(".");
  return names.reduce((inner: unknown, name) => Object(inner)[name], data);
}
