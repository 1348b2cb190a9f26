/**
 * One mutated answer as our client, undici's and that of node:http read it. Where all take it they take the
 * same; where they differ, ours refuses, by a rule that has a name and that the answer is seen to break.
 */
import { H1Fault, type AnswerRule } from "../../../src/http1/fault.ts";
import { mutatedAnswer, type MutatedAnswer } from "./mutated-answers.ts";
import { readByNode, readByUndici, readOurs } from "./reading.ts";
import type { Read, Reading } from "./reading.ts";

/** Where ours refuses what another takes: by which rule, and what in the answer shows that it is so. */
export const STRICTER: Partial<Record<AnswerRule, RegExp>> = {
  // Another version, a line before it, a status below 100, a control in the phrase.
  "status-line":
    /(?:^|\n)(?:[\r\n]+HTTP|HTTP\/(?!1\.[01] )|HTTP\/1\.[01] 0|HTTP\/1\.[01] \d{3}[^\n]*(?:(?![\t\r])\p{Cc}|\r\r))/u,
  switch: /(?:^|\n)HTTP\/1\.[01] 101/,
  // RFC 9110 section 8.6: 1xx frames nothing.
  "interim-framing": /(?:^|\n)HTTP\/1\.[01] 1\d\d[^]*(?:content-length|transfer-encoding):/i,
  // A list, other codings, none, twice.
  "transfer-encoding":
    /\ntransfer-encoding:(?![ \t]*chunked[ \t]*\r)|(?:\ntransfer-encoding:[^]*){2}/i,
  "old-chunked": /(?:^|\n)HTTP\/1\.0 [^]*\ntransfer-encoding:/i,
  // More bytes than a number can count.
  "content-length": /\ncontent-length:[ \t]*\d{16,}/i,
  // No name, or no value behind `=`.
  "chunk-extension": /\n[\da-f]+[^\r\n]*;(?:[^\r\n;]*=[;\r]|=)/i,
  "trailer-name": /\r\n0+[^\n]*\r\n[^]*(?:content-length|transfer-encoding):/i,
};

/** Where ours takes what undici refuses, and undici is wrong. */
const UNDICI_REFUSES = [
  // An interim 100 that nobody asked for, and interim answers that say they close.
  /^(?:HTTP\/1\.[01] 1\d\d[^\n]*\n)/,
  // It counts the blanks behind the number as digits.
  /\ncontent-length:[ \t]*\d+[ \t]+\r/i,
];

const textOf = ({ pieces }: MutatedAnswer): string => Buffer.concat(pieces).toString("latin1");

const trimmed = (raw: readonly string[]) => raw.map((text) => text.replace(/[ \t]+$/, ""));

/** Undici keeps the blanks behind values, and of a phrase in several pieces only the last. */
function asUndici({ status, lines, body, trailers }: Read): unknown {
  return { status, lines: trimmed(lines), body, trailers: trimmed(trailers) };
}

interface Readings {
  readonly answer: MutatedAnswer;
  readonly node: Reading;
  readonly undici: Reading;
}

/** What is wrong with an answer that ours has taken; null when nothing is. */
function problemOfTaken(ours: Read, { answer, node, undici }: Readings): string | null {
  if (node.read === null) return `node refuses: ${node.fault.message}`;
  if (!same(ours, node.read)) return `node reads ${JSON.stringify(node.read)}`;
  if (undici.read === null) {
    const isKnown = UNDICI_REFUSES.some((weakness) => weakness.test(textOf(answer)));
    return isKnown ? null : `undici refuses: ${undici.fault.message}`;
  }
  const isSame = same(asUndici(ours), asUndici(undici.read));
  return isSame ? null : `undici reads ${JSON.stringify(undici.read)}`;
}

/** What is wrong with having refused an answer; null when nothing is. */
function problemOfRefused(fault: Error, { answer, node, undici }: Readings): string | null {
  if (!(fault instanceof H1Fault)) return `ours throws ${String(fault)}`;
  if (node.read === null && undici.read === null) return null;
  // The end of a connection that was reset proves nothing about the end of an answer.
  if (fault.code === "broken" && answer.ending === "reset") return null;
  const shown = fault.rule === null ? undefined : STRICTER[fault.rule];
  return shown?.test(textOf(answer)) === true ? null : `ours alone refuses: ${ruleOf(fault)}`;
}

/** `told` counts what was taken and what was refused by which rule. */
export async function problemOf(seed: number, told: Map<string, number>): Promise<string | null> {
  const answer = mutatedAnswer(seed);
  const ours = readOurs(answer);
  const [node, undici] = await Promise.all([readByNode(answer), readByUndici(answer)]);
  const outcome = ours.read === null ? ruleOf(ours.fault) : "taken";
  told.set(outcome, (told.get(outcome) ?? 0) + 1);
  const readings = { answer, node, undici };
  return ours.read === null
    ? problemOfRefused(ours.fault, readings)
    : problemOfTaken(ours.read, readings);
}

export const same = (left: unknown, right: unknown): boolean =>
  JSON.stringify(left) === JSON.stringify(right);

export const describeCase = (seed: number, problem: string): string => {
  const { method, ending, pieces } = mutatedAnswer(seed);
  const sizes = pieces.map((piece) => piece.length).join(",");
  return `seed ${seed}: ${problem}\n  ${method}, ${ending}, pieces ${sizes}\n  ${JSON.stringify(textOf(mutatedAnswer(seed)))}`;
};

/** The rule that was broken, or the code of another fault. */
export function ruleOf(fault: Error | null): string {
  return fault instanceof H1Fault ? (fault.rule ?? fault.code) : String(fault);
}
