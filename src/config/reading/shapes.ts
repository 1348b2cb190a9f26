/**
 * The building blocks of the document's shape: single values, maps and lists, each with the message that
 * completes a sentence about the value that it points at, and with what an editor is told about it.
 */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import type { Fault } from "./problem.ts";
import {
  bad,
  DURATION,
  DURATION_FORM,
  readDuration,
  readSize,
  readWord,
  SIZE,
  SIZE_FORM,
  type Reader,
} from "./reading.ts";

/** Longest free text (descriptions and the like), characters. */
const MAX_TEXT = 4096;

/**
 * What a written value looks like, in words of JSON Schema: never narrower than what its reader accepts.
 * Placeholders are not part of it, they are allowed in every value.
 */
export interface Form {
  /** It looks like another part of the file: `#/properties/routes`. */
  readonly $ref?: string;
  readonly type?: "string" | "number" | "integer" | "boolean" | "array";
  readonly enum?: readonly (string | number | boolean)[];
  readonly pattern?: string;
  /** What an editor says where the pattern does not fit. */
  readonly patternErrorMessage?: string;
  readonly examples?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Form;
  readonly anyOf?: readonly Form[];
  /** No value at all: one that is only read to be refused with a good word. */
  readonly not?: Readonly<Record<string, never>>;
}

/** Of a value that is only read to say what to write instead. */
export const REFUSED: Form = { not: {} };

/**
 * Unquoted, an EVM address or key is a number to most readers of YAML and so to editors: one that nobody
 * would write in digits.
 */
export const HEX_NUMBER: Form = { type: "number", minimum: 2 ** 64 };

/** Text of a pattern; `wanted` is what to say about other text. */
export function matching(pattern: RegExp, wanted: string, ...examples: readonly string[]): Form {
  const form: Form = { type: "string", pattern: pattern.source, patternErrorMessage: wanted };
  return examples.length === 0 ? form : { ...form, examples };
}

export function reader<Input, Output>(
  schema: z.ZodType<Input, Input>,
  read: (input: Input) => Result<Output, Fault>,
  form?: Form,
) {
  const shape = schema.transform((input, context) => {
    const result = read(input);
    if (result.ok) return result.value;
    const { message, ...params } = result.error;
    context.issues.push({ code: "custom", message, params, input });
    return z.NEVER;
  });
  return form === undefined ? shape : shape.register(z.globalRegistry, { form });
}

export function text<Value>(read: Reader<Value>, form?: Form, wanted = "must be text") {
  return reader(z.string(wanted), read, form);
}

/** Text of a pattern, as it is; `wanted` is what is said about other text. */
export function textLike(pattern: RegExp, wanted: string, ...examples: readonly string[]) {
  return text(
    (value) => (pattern.test(value) ? ok(value) : bad(wanted)),
    matching(pattern, wanted, ...examples),
  );
}

/** One of a few words. */
export function word<const Word extends string>(words: readonly Word[]) {
  return text(readWord(words), { enum: words });
}

export const duration = text(
  readDuration,
  matching(DURATION, DURATION_FORM, "500ms", "30s", "10m", "1h"),
  DURATION_FORM,
);
export const size = text(readSize, matching(SIZE, SIZE_FORM, "512B", "16KiB", "10MiB"), SIZE_FORM);

export const plainText = z
  .string("must be text")
  .max(MAX_TEXT, `must have at most ${MAX_TEXT} characters`);

/** Digits in quotes, which is a number where one is wanted. */
const DIGITS = /^[0-9]{1,15}$/;

/** A whole number; digits in text are one too, since that is what `${NAME}` leaves. */
export function whole(least: number, most: number, why = "") {
  const range = `must be a whole number from ${least} to ${most}${why}`;
  const form: Form = {
    anyOf: [{ type: "integer", minimum: least, maximum: most }, matching(DIGITS, range)],
  };
  return reader(
    z.union([z.number(), z.string()], range),
    (input) => {
      const value = typeof input === "number" || DIGITS.test(input) ? Number(input) : NaN;
      return Number.isInteger(value) && value >= least && value <= most ? ok(value) : bad(range);
    },
    form,
  );
}

const FLAG_FORM = "must be true or false";

/** `true` or `false`, also as the text that `${NAME}` leaves. */
export const flag = reader(
  z.union([z.boolean(), z.string()], FLAG_FORM),
  (input) => {
    if (typeof input === "boolean") return ok(input);
    return input === "true" || input === "false" ? ok(input === "true") : bad(FLAG_FORM);
  },
  { anyOf: [{ type: "boolean" }, matching(/^(?:true|false)$/, FLAG_FORM)] },
);

export function map<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, "must be a map");
}

export function listOf<Element extends z.ZodType>(element: Element) {
  return z.array(element, "must be a list");
}

/** A map whose keys are names; `names` is the form of those. */
export function named<Value extends z.ZodType>(value: Value, names?: Form) {
  const shape = z.record(z.string(), value, "must be a map");
  return names === undefined ? shape : shape.meta({ propertyNames: names });
}

/** With what an editor shows about the value. */
export function described<Shape extends z.ZodType>(shape: Shape, description: string): Shape {
  return shape.meta({ description });
}

/** The value of a key that may be left out, and then is absent, or what `standard` means: that is read like any other. */
export function optional<Shape extends z.ZodType>(
  shape: Shape,
  description: string,
): z.ZodExactOptional<Shape>;
export function optional<Shape extends z.ZodType>(
  shape: Shape,
  description: string,
  standard: z.input<Shape>,
): z.ZodPrefault<Shape>;
export function optional(shape: z.ZodType, description: string, standard?: unknown) {
  return standard === undefined
    ? shape.meta({ description }).exactOptional()
    : shape.prefault(standard).meta({ description, default: standard });
}

/** A map of which every key may be left out, and so may the map: each key then has its own standard. */
export function section<Shape extends z.ZodType>(
  shape: Shape,
  description: string,
): z.ZodPrefault<Shape>;
export function section(shape: z.ZodType, description: string) {
  return shape.prefault({}).meta({ description });
}

/**
 * The value of a key that may be left out, and then is absent: other keys have a say in what holds in its place.
 * `standard` is what editors are told, and what whoever reads the map takes where nothing else decides.
 */
export function derived<Shape extends z.ZodType>(
  shape: Shape,
  description: string,
  standard: z.input<Shape>,
): z.ZodExactOptional<Shape> {
  return shape.meta({ description, default: standard }).exactOptional();
}

/** JSON as the discovery listing shows it. */
export const jsonObject = z.record(z.string(), z.unknown(), "must be a map");

export const headerValue = textLike(
  /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/,
  "must be printable ASCII",
);

/** Source of a regular expression. */
export const HOST_NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?";

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^`|~-]+$/;
const HEADER_NAME_FORM = "must be the name of a header, without spaces and underscores";

export const headerName = textLike(HEADER_NAME, HEADER_NAME_FORM);

/** The key of a map. */
export const headerKey = z.string().regex(HEADER_NAME, HEADER_NAME_FORM);
