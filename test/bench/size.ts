/**
 * How much of a bench is run. `BENCH=short npm run bench:…` takes everything once and as small as it goes: that shows
 * that the bench still works, in a second or two, and its figures say nothing. The suite runs each so.
 */
export const IS_SHORT = process.env["BENCH"] === "short";

export function sized<Size>(whole: Size, short: Size): Size {
  return IS_SHORT ? short : whole;
}
