/** "did you mean …": the nearest of a few known words, when one is near enough to be a typing error. */
import damerauLevenshtein from "damerau-levenshtein";
import { latinOf, lookAlike } from "./look-alikes.ts";

/** `did you mean "routes"?`, or undefined when no candidate is near. */
export function didYouMean(written: string, candidates: Iterable<string>): string | undefined {
  const nearest = nearestWord(written, candidates);
  if (nearest === undefined) return undefined;
  const letter = lookAlike(written);
  const meant = `did you mean ${JSON.stringify(nearest)}?`;
  return letter === undefined ? meant : `${meant} ${letter}`;
}

/**
 * The candidate with the fewest edits (insertions, deletions, replacements, swaps of neighbours), at most a third of
 * the longer word's letters and at least one.
 */
export function nearestWord(written: string, candidates: Iterable<string>): string | undefined {
  const word = latinOf(written).toLowerCase();
  let best: string | undefined;
  let least = Infinity;
  for (const candidate of candidates) {
    const allowed = Math.max(1, Math.floor(Math.max(word.length, candidate.length) / 3));
    if (Math.abs(word.length - candidate.length) > allowed) continue;
    const { steps: edits } = damerauLevenshtein(word, candidate.toLowerCase());
    if (edits <= allowed && edits < least) {
      best = candidate;
      least = edits;
    }
  }
  return best;
}
