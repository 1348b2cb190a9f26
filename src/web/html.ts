/**
 * HTML that text cannot break out of: the `html` template writes each value as its place needs it, as text,
 * as a quoted attribute or as a URL, and refuses places where no writing is safe. Data for scripts goes
 * through {@link jsonData}; what is markup already is an {@link Html}, and only this file makes those.
 */

/** Markup that is complete in itself. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** What may stand in a template; null and false are nothing at all. */
export type Fragment = string | number | bigint | Html | null | false | readonly Fragment[];

/** Where in the markup a value stands. `url`: in an attribute that a browser follows or loads. */
type Place = "text" | "attribute" | "url" | "raw";

const URL_ATTRIBUTES = new Set(["href", "src", "action", "formaction", "cite", "poster", "data"]);
const RAW_ELEMENTS = new Set(["script", "style", "title", "textarea"]);
/** Content that a browser reads as text, entities included, so that text can be written there. */
const TEXT_ELEMENTS = new Set(["title", "textarea"]);

const places = new WeakMap<TemplateStringsArray, readonly Place[]>();

/**
 * Markup with values. Attributes are written with double quotes: `<a href="${url}">`. In `script` and `style`
 * only {@link Html} may stand.
 * @throws TypeError where a value stands in a place that cannot be written safely: a fault of the template
 */
export function html(strings: TemplateStringsArray, ...values: readonly Fragment[]): Html {
  let known = places.get(strings);
  if (known === undefined) {
    known = readPlaces(strings);
    places.set(strings, known);
  }
  let text = strings[0] ?? "";
  for (const [index, value] of values.entries()) {
    text += write(value, known[index] ?? "raw") + (strings[index + 1] ?? "");
  }
  return new Html(text);
}

/** Our own markup, style or script, written as it is. Never for text from anywhere else. */
export function trusted(text: string): Html {
  return new Html(text);
}

/**
 * A value as JSON for `<script type="application/json">`, which `JSON.parse` reads back. It holds no `<`, `>`
 * or `&`, so that it can neither end the element nor begin a comment, and no line separators of U+2028.
 */
export function jsonData(value: unknown): Html {
  return new Html(
    JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (character) => {
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
    }),
  );
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
  "`": "&#96;",
};

/** Text for an element's content or for a quoted attribute. */
export function escapeText(text: string): string {
  return text.replace(/[&<>"'`]/g, (character) => ENTITIES[character] ?? "");
}

function write(value: Fragment, place: Place): string {
  if (value === null || value === false) return "";
  if (value instanceof Html) {
    if (place === "attribute" || place === "url") throw new TypeError("markup in an attribute");
    return value.toString();
  }
  if (typeof value === "object") return value.map((part) => write(part, place)).join("");
  if (place === "raw") throw new TypeError("text in a script or a style");
  const text = String(value);
  return escapeText(place === "url" ? followable(text) : text);
}

/** Schemes that a link may have; everything else could be a script. */
const SAFE_SCHEME = /^(?:https?|mailto|blob):/i;

/** The URL, or `#` in place of one whose scheme is not safe. */
export function followable(url: string): string {
  // Browsers drop control characters and spaces before they look for a scheme.
  const read = url.replace(/[^!-\uffff]/g, "");
  return SAFE_SCHEME.test(read) || !/^[^/?#]*:/.test(read) ? url : "#";
}

/** How far a template has been read. */
interface Reading {
  readonly state: "text" | "tag" | "value" | "raw" | "comment";
  /** Of the element whose tag is open, or whose raw content it is. */
  readonly element: string;
  readonly attribute: string;
}

function readPlaces(strings: TemplateStringsArray): readonly Place[] {
  let reading: Reading = { state: "text", element: "", attribute: "" };
  return strings.slice(0, -1).map((string) => {
    reading = readOn(reading, string);
    return placeOf(reading);
  });
}

function placeOf({ state, element, attribute }: Reading): Place {
  switch (state) {
    case "text":
      return "text";
    case "raw":
      return TEXT_ELEMENTS.has(element) ? "text" : "raw";
    case "value":
      if (/^(?:on|style$|srcdoc$)/.test(attribute)) {
        throw new TypeError(`a value in the attribute ${attribute}`);
      }
      return URL_ATTRIBUTES.has(attribute) ? "url" : "attribute";
    default:
      throw new TypeError("a value in a tag or a comment, outside of double quotes");
  }
}

function readOn(from: Reading, string: string): Reading {
  let reading = from;
  let rest = string;
  while (rest !== "") {
    const [next, length] = step(reading, rest);
    reading = next;
    rest = rest.slice(length);
  }
  return reading;
}

/** Reads one piece of markup: what follows from it, and how long it is. */
function step(reading: Reading, rest: string): readonly [Reading, number] {
  const { state, element } = reading;
  switch (state) {
    case "text": {
      const found = /<(!--|\/?[a-z][a-z0-9-]*)/i.exec(rest);
      if (found === null) return [reading, rest.length];
      const name = (found[1] ?? "").toLowerCase();
      const next = name === "!--" ? "comment" : "tag";
      return [{ state: next, element: name, attribute: "" }, found.index + found[0].length];
    }
    case "tag": {
      const found = /([a-z][\w-]*)="|>/i.exec(rest);
      if (found === null) return [reading, rest.length];
      const end = found.index + found[0].length;
      const [, attribute] = found;
      if (attribute !== undefined) {
        return [{ state: "value", element, attribute: attribute.toLowerCase() }, end];
      }
      return [{ state: RAW_ELEMENTS.has(element) ? "raw" : "text", element, attribute: "" }, end];
    }
    case "value":
      return until(rest, '"', { ...reading, state: "tag" }, reading);
    case "raw":
      return until(rest, `</${element}>`, { ...reading, state: "text" }, reading);
    case "comment":
      return until(rest, "-->", { ...reading, state: "text" }, reading);
  }
}

function until(
  rest: string,
  end: string,
  then: Reading,
  else_: Reading,
): readonly [Reading, number] {
  const index = rest.indexOf(end);
  return index === -1 ? [else_, rest.length] : [then, index + end.length];
}
