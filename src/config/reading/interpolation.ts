/**
 * `${NAME}` and `${NAME:-default}` inside a value. They are filled in after the document is parsed, so
 * what a variable holds can never become a key, a list or another value. `$${` stands for `${`.
 */
import { readVariable, type Environment } from "./environment.ts";
import type { Fault } from "./problem.ts";

const PLACEHOLDER = /\$\$\{|\$\{([^}]*)(\}?)/g;
const EXPRESSION = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

export interface Filled {
  readonly text: string;
  readonly faults: readonly PlaceholderFault[];
}

interface PlaceholderFault extends Fault {
  /** The placeholder as written, to find its place. */
  readonly placeholder: string;
}

export function hasPlaceholder(text: string): boolean {
  return text.includes("${");
}

/** Fills in every placeholder; like in a shell, `:-` also stands in for a variable that is empty. */
export function fillPlaceholders(text: string, environment: Environment): Filled {
  const faults: PlaceholderFault[] = [];
  const filled = text.replace(PLACEHOLDER, (placeholder, inner?: string, end?: string) => {
    if (inner === undefined) return "${";
    const match = end === "}" ? EXPRESSION.exec(inner) : null;
    if (match === null) {
      faults.push({ ...malformed(end === "}"), placeholder });
      return "";
    }
    const [, name = "", fallback] = match;
    const variable = readVariable(name, environment);
    if (!variable.ok) {
      faults.push({ ...variable.error, placeholder });
      return "";
    }
    if (fallback !== undefined) return variable.value || fallback;
    if (variable.value !== undefined) return variable.value;
    faults.push({ ...unset(name), placeholder });
    return "";
  });
  return { text: filled, faults };
}

function malformed(closed: boolean): Fault {
  return {
    code: "bad-placeholder",
    message: closed ? "this is not a variable name" : "the placeholder is not closed with }",
    suggestion: "write ${NAME} or ${NAME:-default}; $${ stands for a literal ${",
  };
}

function unset(name: string): Fault {
  return {
    code: "unset-variable",
    message: `the environment variable ${name} is not set`,
    suggestion: `set ${name} or ${name}_FILE, or give a default: \${${name}:-…}`,
  };
}
