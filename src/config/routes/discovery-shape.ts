/** The shape of `discovery`: where the priced routes are published. */
import { z } from "zod";
import { PAGE_PATH, readPagePath } from "./catalogue-page.ts";
import { BASE_URL } from "../reading/forms.ts";
import { readBaseUrl } from "../reading/reading.ts";
import { flag, map, optional, plainText, text } from "../reading/shapes.ts";

const openapi = z.union(
  [
    flag,
    map({
      from: plainText.meta({
        description:
          "The backend's own description, OpenAPI 3.0 or 3.1 as JSON or YAML: a file, relative to this one. " +
          "What buyers may ask for of it is published, with prices.",
      }),
    }),
  ],
  "must be true, false or { from: FILE }",
);

export const discovery = map({
  listed: optional(flag, "Serves the listing of priced routes at /discovery/resources.", true),
  wellKnown: optional(
    flag,
    "Serves /.well-known/x402, which leads programs from the host to the listing.",
    false,
  ),
  openapi: optional(
    openapi,
    "Serves /openapi.json: the priced routes as OpenAPI 3.1, or the backend's own description with prices.",
    false,
  ),
  page: optional(
    text(readPagePath, PAGE_PATH),
    "Path of a page for people that shows the priced routes: /catalogue. Without it: nowhere.",
  ),
  llms: optional(flag, "Serves /llms.txt: the priced routes in words, for language models.", false),
  facilitator: optional(
    text(readBaseUrl, BASE_URL),
    "Public address of the facilitator, for /.well-known/x402. Without it: none is named.",
  ),
});
