/** How much a proof by many random cases takes upon itself: little in the suite, all of it in `npm run prove:fuzz`. */
export function effort(short: number, long: number): number {
  return process.env["EFFORT"] === "long" ? long : short;
}
