/** `$name` in a case file, turned into the value that it stands for; all other values stay as they are. */

/** Values of a case by name, as the wire writes them. */
export type Names = Readonly<Record<string, string>>;

const REFERENCE = /^\$([A-Za-z]+)(?: ([+-]) (\d+)| (lower|upper|swapped)| (\d+))?$/;

/** Evaluates every string in a value. Throws for a name that the case does not have. */
export function evaluate(value: unknown, names: Names): unknown {
  if (typeof value === "string") return evaluateText(value, names);
  if (Array.isArray(value)) return value.map((item) => evaluate(item, names));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, member]) => [key, evaluate(member, names)]);
  return Object.fromEntries(entries);
}

export function evaluateText(text: string, names: Names): string {
  const match = REFERENCE.exec(text);
  if (match === null) return text;
  const [, name = "", sign, count, letters, size] = match;
  if (size !== undefined) return fill(name, Number(size));
  const value = names[name];
  if (value === undefined) throw new Error(`there is no $${name}`);
  if (sign !== undefined) return String(BigInt(value) + BigInt(`${sign}${count}`));
  return letters === undefined ? value : inLetters(value, letters);
}

/** Arrays too deep for `JSON.stringify` are written into the finished text. */
export function expandNested(json: string): string {
  return json.replaceAll(/"@nested (\d+)@"/g, (_, depth: string) => {
    return "[".repeat(Number(depth)) + "]".repeat(Number(depth));
  });
}

function fill(name: string, size: number): string {
  switch (name) {
    case "chars":
      return "a".repeat(size);
    case "digits":
      return "9".repeat(size);
    case "bytes":
      return `0x${"ab".repeat(size)}`;
    case "nested":
      return `@nested ${size}@`;
    default:
      throw new Error(`$${name} takes no size`);
  }
}

/** The `0x` keeps its case. */
function inLetters(hex: string, letters: string): string {
  const digits = hex.slice(2);
  if (letters === "lower") return `0x${digits.toLowerCase()}`;
  if (letters === "upper") return `0x${digits.toUpperCase()}`;
  const swapped = Array.from(digits, (digit) =>
    digit === digit.toLowerCase() ? digit.toUpperCase() : digit.toLowerCase(),
  );
  return `0x${swapped.join("")}`;
}
