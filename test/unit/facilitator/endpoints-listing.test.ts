import { expect, test } from "vitest";
import { ask, stage } from "./endpoints-stage.ts";

test.each([
  ["/v2/discovery/resources", "v2"],
  ["/v2/discovery/search", "search"],
  ["/discovery/search", "search"],
])("%s is answered in the form of version 2, to those who may call", async (path, form) => {
  const at = await stage();
  expect(await ask(at, `${path}?query=a&limit=5`)).toMatchObject({ status: 200 });
  expect(at.queries).toEqual([`${form}: query=a&limit=5`]);
  expect(await ask(await stage({ bearer: "secret" }), path)).toMatchObject({ status: 401 });
});
