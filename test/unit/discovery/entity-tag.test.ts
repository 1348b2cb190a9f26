import { describe, expect, test } from "vitest";
import { entityTag, namesTag } from "../../../src/discovery/entity-tag.ts";

describe("an entity tag", () => {
  const tag = entityTag("a body");

  test("is one of these bytes and of no others", () => {
    expect(tag).toMatch(/^"[\w-]{24}"$/);
    expect(entityTag("a body")).toBe(tag);
    expect(entityTag("a bodz")).not.toBe(tag);
  });

  test.each([tag, `W/${tag}`, `"x", ${tag}`, `"x",W/${tag} , "y"`, "*", " * "])(
    "is named by %s",
    (field) => expect(namesTag(field, tag)).toBe(true),
  );

  test.each(["", '""', tag.slice(1), `w/${tag}`, `${tag}x`, "**", `"x"`])(
    "is not named by %s",
    (field) => expect(namesTag(field, tag)).toBe(false),
  );

  test("is looked for in no field without end", () => {
    expect(namesTag(undefined, tag)).toBe(false);
    expect(namesTag(`${'"x",'.repeat(1_000)}${tag}`, tag)).toBe(false);
  });
});
