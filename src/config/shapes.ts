/**
 * The building blocks of the document's shape: single values, maps and lists, each with the message that
 * completes a sentence about the value that it points at.
 */
import { z } from "zod";
import { err, ok, type Result } from "../x402/result.ts";
import type { Fault } from "./problem.ts";
import { bad, fault, NOT_YET, readDuration, readSize, type Reader } from "./reading.ts";

/** Longest free text (descriptions and the like), characters. */
const MAX_TEXT = 4096;

export function reader<Input, Output>(
  schema: z.ZodType<Input>,
  read: (input: Input) => Result<Output, Fault>,
) {
  return schema.transform((input, context) => {
    const result = read(input);
    if (result.ok) return result.value;
    const { message, ...params } = result.error;
    context.issues.push({ code: "custom", message, params, input });
    return z.NEVER;
  });
}

export function text<Value>(read: Reader<Value>, wanted = "must be text") {
  return reader(z.string(wanted), read);
}

export const duration = text(readDuration, "must be a duration such as 500ms, 30s, 10m or 1h");
export const size = text(readSize, "must be a size such as 512B, 16KiB or 10MiB");

export const plainText = z
  .string("must be text")
  .max(MAX_TEXT, `must have at most ${MAX_TEXT} characters`);

/** A whole number; digits in text are one too, since that is what `${NAME}` leaves. */
export function whole(least: number, most: number, why = "") {
  const range = `must be a whole number from ${least} to ${most}${why}`;
  return reader(z.union([z.number(), z.string()], range), (input) => {
    const value = typeof input === "number" || /^[0-9]{1,15}$/.test(input) ? Number(input) : NaN;
    return Number.isInteger(value) && value >= least && value <= most ? ok(value) : bad(range);
  });
}

/** `true` or `false`, also as the text that `${NAME}` leaves. */
export const flag = reader(z.union([z.boolean(), z.string()], "must be true or false"), (input) => {
  if (typeof input === "boolean") return ok(input);
  return input === "true" || input === "false"
    ? ok(input === "true")
    : bad("must be true or false");
});

const LATER = {
  ...fault(NOT_YET, "is recognised but not supported by this version yet"),
  part: "key",
};

/** On while false; `true` belongs to a later version. */
export const laterWhenTrue = reader(flag, (on) => (on ? err(LATER) : ok(false)));

export function map<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, "must be a map");
}

export function listOf<Element extends z.ZodType>(element: Element) {
  return z.array(element, "must be a list");
}

export function named<Value extends z.ZodType>(value: Value) {
  return z.record(z.string(), value, "must be a map");
}

/** JSON as the discovery listing shows it. */
export const jsonObject = z.record(z.string(), z.unknown(), "must be a map");

export const headerValue = text((value) =>
  /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value)
    ? ok(value)
    : bad("must be printable ASCII"),
);

export const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^`|~-]+$/, "is not the name of a header");
