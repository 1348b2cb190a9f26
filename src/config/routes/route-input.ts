/** `input` of a route: what a buyer has to send. */
import { jsonObject, map, optional, word } from "../reading/shapes.ts";

type JsonObject = Readonly<Record<string, unknown>>;

/** What a buyer has to send, as the discovery listing describes it. */
export interface RouteInput {
  readonly queryParams?: JsonObject;
  readonly bodyType?: "json" | "form-data" | "multipart-form-data" | "text" | "binary";
  readonly bodyFields?: JsonObject;
  readonly headerFields?: JsonObject;
  /** Of the parameters of the route's own pattern, by name. */
  readonly pathParams?: JsonObject;
}

export const input = map({
  queryParams: optional(jsonObject, "Query parameters by name: { city: { type: string } }."),
  bodyType: optional(
    word(["json", "form-data", "multipart-form-data", "text", "binary"]),
    "What the body is.",
  ),
  bodyFields: optional(jsonObject, "Fields of the body by name."),
  headerFields: optional(jsonObject, "Header fields by name."),
  pathParams: optional(
    jsonObject,
    "What the :name parts of the route stand for: { id: { type: string, example: a17 } }.",
  ),
});
