/** `cors`: which web pages may read the answers. */
import { z } from "zod";
import { readBrowserOrigin } from "../reading/reading.ts";
import { described, flag, listOf, map, matching, text } from "../reading/shapes.ts";

export const cors = z.union(
  [
    flag.transform((isAny) => (isAny ? "any" : "off")),
    map({
      origins: described(
        listOf(
          text(
            readBrowserOrigin,
            matching(/^https?:\/\/[^\s\\/?#]+$/, "must be an origin: https://app.example.com"),
          ),
        ),
        "Origins whose pages may read the answers.",
      ),
    }).transform(({ origins }) => origins),
  ],
  "must be true, false or { origins }",
);
