/** How the demo speaks: numbered steps, and below each what it shows, indented. */

let stepNumber = 0;

export function say(text = ""): void {
  process.stdout.write(`${text}\n`);
}

export function step(text: string): void {
  stepNumber += 1;
  say(`\n${stepNumber}. ${text}`);
}

/** Text as it is, anything else as JSON. */
export function show(value: unknown): void {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  for (const line of text.split("\n")) say(`     ${line}`);
}
