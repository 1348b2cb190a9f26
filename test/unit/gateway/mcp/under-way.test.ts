/** Which ids stand for something in a session, and until when. */
import { expect, test } from "vitest";
import { UnderWay } from "../../../../src/gateway/mcp/under-way.ts";

const paid = { session: "S1", id: 7, asked: "quote" };

test("an id stands for one thing until that is answered", () => {
  const ids = new UnderWay();
  const first = ids.begin(paid);
  expect(ids.begin({ ...paid, asked: "" })).toBeNull();
  expect(ids.begin({ ...paid, asked: "echo" })).toBeNull();
  // As loose readers take it.
  expect(ids.begin({ ...paid, id: "7", asked: "" })).toBeNull();
  expect(ids.begin({ ...paid, session: "s1", asked: "" })).toBeNull();
  // Who tries again asks for the same.
  const second = ids.begin(paid);
  first?.();
  expect(ids.begin({ ...paid, asked: "" })).toBeNull();
  second?.();
  expect(ids.size).toBe(0);
  expect(ids.begin({ ...paid, asked: "" })).not.toBeNull();
});

test("others have ids of their own, and so has who has no session", () => {
  const ids = new UnderWay();
  ids.begin(paid);
  expect(ids.begin({ ...paid, session: "s2", asked: "" })).not.toBeNull();
  expect(ids.begin({ ...paid, id: 8, asked: "" })).not.toBeNull();
  ids.begin({ session: "", id: 1, asked: "quote" });
  expect(ids.begin({ session: "", id: 1, asked: "" })).not.toBeNull();
  expect(ids.size).toBe(3);
});
