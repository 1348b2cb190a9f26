/** What is done to the configuration while buyers pay. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../simulation/random.ts";
import { KEY_CHANGES, baseFile, changedFile, PAID } from "./keys.ts";
import { textOf, type RotationStage } from "./stage.ts";

/** Of the base file, atomic units. */
const PRICE = "10000";

/** Every key to another value and back, so many times. What is wrong, each a line. */
export async function changeEveryKey(stage: RotationStage, times: number): Promise<string[]> {
  const faults: string[] = [];
  const base = baseFile(stage.names);
  for (let round = 0; round < times; round += 1) {
    for (const change of KEY_CHANGES) {
      const file = changedFile(stage.names, change);
      for (const each of [file, base]) {
        const refused = await stage.change(each);
        if (refused !== undefined) faults.push(`${change.key}: ${refused}`);
      }
    }
  }
  return faults;
}

/** Files that are cut anywhere, or wrong, each with another price in it. What went live, each a line. */
export async function offerWrongFiles(
  stage: RotationStage,
  count: number,
  random: Random,
): Promise<string[]> {
  const faults: string[] = [];
  await stage.change(baseFile(stage.names));
  for (let index = 0; index < count; index += 1) {
    const text = wrongFile(stage, index, random);
    const refused = await stage.change(text);
    const price = await stage.price();
    if (refused === undefined || price !== PRICE) faults.push(`live at ${price}:\n${text}`);
    await sleep(5);
  }
  return faults;
}

/** Every other one is cut, the others have one thing that is wrong. */
function wrongFile(stage: RotationStage, index: number, random: Random): string {
  const file = structuredClone(baseFile(stage.names));
  Object(file["routes"])[PAID].price = "$0.99";
  const text = textOf(file);
  if (index % 2 === 0) return text.slice(0, random.between(0, text.trimEnd().length - 1));
  const wrong = WRONG[random.between(0, WRONG.length - 1)];
  return wrong?.(text) ?? "";
}

const WRONG: readonly ((text: string) => string)[] = [
  (text) => text.replace("$0.99", "$0.9O"),
  (text) => text.replace("$0.99", "free"),
  (text) => text.replace("$0.99", "$-1"),
  (text) => text.replace(`  ${PAID}:`, `  ${PAID.replace("GET", "GETT")}:`),
  (text) =>
    text.replace(`  ${PAID}:`, "  GET /unpaid:").replace("unmatched: deny", "unmatched: free"),
  (text) => text.replace("routes:", "rutes:"),
  (text) => text.replace("routes:", "\troutes:"),
  (text) => `${text}routes: {}\n`,
  (text) => text.replace("unmatched: deny", "unmatched: maybe"),
  (text) => text.replace("env:ONE", "env:NOBODY"),
  (text) => text.replace(/rpc:\n(\s+- )\S+/, "rpc:\n$1http://127.0.0.1:1"),
  (text) => text.replace("base-sepolia:", "base:"),
  (text) => text.replace(/evm: "?0x/, "evm: 0y"),
  (text) => text.replace("store: sqlite:", "store: sqlite:/tmp/another"),
  (text) => text.replace("admin: 127.0.0.1:0", "admin: 127.0.0.1:1"),
  (text) => text.replace("\n  GET /free", "\n   GET /free"),
  () => "",
  () => "\u0000\u0001",
];
