/** Single fields among the raw lines of a message. */

/** The first value of a field in raw lines. */
export function valueOf(raw: readonly string[], lowerCaseName: string): string | undefined {
  for (let index = 0; index < raw.length; index += 2) {
    if (isNamed(raw[index] ?? "", lowerCaseName)) return raw[index + 1] ?? "";
  }
  return undefined;
}

/** All values of a field in raw lines, in their order. */
export function valuesOf(raw: readonly string[], lowerCaseName: string): string[] {
  const values: string[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    if (isNamed(raw[index] ?? "", lowerCaseName)) values.push(raw[index + 1] ?? "");
  }
  return values;
}

/** Compares lengths first: almost every line is out after one comparison. */
export function isNamed(name: string, lowerCaseName: string): boolean {
  return name.length === lowerCaseName.length && name.toLowerCase() === lowerCaseName;
}
