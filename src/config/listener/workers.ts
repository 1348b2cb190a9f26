/** `workers`: how many processes serve requests. */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import type { Fault } from "../reading/problem.ts";
import { bad } from "../reading/reading.ts";
import { matching, reader } from "../reading/shapes.ts";

/** More than any machine needs: each of them is a process with an engine of its own. */
const MAX_WORKERS = 128;
const FORM = `must be a whole number from 1 to ${MAX_WORKERS}, or auto for as many as there are cores`;

/** Digits in text are a number, too, since that is what `${NAME}` leaves. */
export const workers = reader(z.union([z.number(), z.string()], FORM), readWorkers, {
  anyOf: [
    { enum: ["auto"] },
    { type: "integer", minimum: 1, maximum: MAX_WORKERS },
    matching(/^[0-9]{1,4}$/, FORM),
  ],
});

function readWorkers(written: number | string): Result<number | "auto", Fault> {
  if (written === "auto") return ok(written);
  const isNumber = typeof written === "number" || /^[0-9]{1,4}$/.test(written);
  const count = isNumber ? Number(written) : NaN;
  if (Number.isInteger(count) && count >= 1 && count <= MAX_WORKERS) return ok(count);
  const hint = count === 0 ? "leave the key out for one process, or write 1" : undefined;
  return bad(FORM, hint);
}
