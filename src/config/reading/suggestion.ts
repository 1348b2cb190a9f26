/** "did you mean …": the nearest of a few known words, when one is near enough to be a typing error. */

/** `did you mean "routes"?`, or undefined when no candidate is near. */
export function didYouMean(written: string, candidates: Iterable<string>): string | undefined {
  const nearest = nearestWord(written, candidates);
  return nearest === undefined ? undefined : `did you mean ${JSON.stringify(nearest)}?`;
}

/** The candidate with the fewest edits, at most a third of the longer word's letters and at least one. */
export function nearestWord(written: string, candidates: Iterable<string>): string | undefined {
  const word = written.toLowerCase();
  let best: string | undefined;
  let least = Infinity;
  for (const candidate of candidates) {
    const allowed = Math.max(1, Math.floor(Math.max(word.length, candidate.length) / 3));
    if (Math.abs(word.length - candidate.length) > allowed) continue;
    const edits = editDistance(word, candidate.toLowerCase());
    if (edits <= allowed && edits < least) {
      best = candidate;
      least = edits;
    }
  }
  return best;
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(left: string, right: string): number {
  const costs: number[][] = [];
  const cost = (row: number, column: number): number => costs[row]?.[column] ?? Infinity;
  for (let row = 0; row <= left.length; row += 1) {
    const line = row === 0 ? [0] : [];
    costs.push(line);
    for (let column = line.length; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      const edits = [
        cost(row - 1, column) + 1,
        cost(row, column - 1) + 1,
        cost(row - 1, column - 1) + (same ? 0 : 1),
        swapped ? cost(row - 2, column - 2) + 1 : Infinity,
      ];
      line.push(Math.min(...edits));
    }
  }
  return cost(left.length, right.length);
}
