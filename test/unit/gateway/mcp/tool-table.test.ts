/** Which tool of a file a name is, for whoever reads names how loosely. */
import { expect, test } from "vitest";
import { isToolPath, ToolTable } from "../../../../src/gateway/mcp/tool-table.ts";

const table = (...names: readonly string[]) =>
  new ToolTable({
    unpaid: "auto",
    telling: true,
    tools: names.map((name) => ({ name, path: `/${name}`, isDenied: false, price: null })),
  });
const found = (names: readonly string[], name: string) => {
  const tool = table(...names).find(name);
  return typeof tool === "object" ? tool.name : tool;
};

test("a name is itself, or the longest beginning of names", () => {
  const names = ["get", "get_*", "get_all_*", "*"];
  expect(found(names, "get")).toBe("get");
  expect(found(names, "get_x")).toBe("get_*");
  expect(found(names, "get_all_x")).toBe("get_all_*");
  expect(found(names, "other")).toBe("*");
  expect(found(["get"], "other")).toBeUndefined();
});

test.each([
  "Quote",
  "QUOTE",
  "quote ",
  " quote",
  "quote\0",
  "quote\n",
  "quo\u200bte",
  "ｑuote",
  "quot\u0065\u0301",
  "quote\ufe0f",
  "\ud800quote",
  "x".repeat(300),
])("a name that may be read as another one is neither: %j", (name) => {
  expect(found(["quote", "*"], name)).toBe("unclear");
});

test.each(["ADMIN_x", "Admin_", "ａdmin_x"])("nor is one of a beginning: %j", (name) => {
  expect(found(["admin_*", "*"], name)).toBe("unclear");
  expect(found(["admin_*"], name)).toBe("unclear");
});

test("what the file spells out is told apart, whatever it looks like", () => {
  expect(found(["get", "GET", "größe"], "GET")).toBe("GET");
  expect(found(["get", "größe"], "größe")).toBe("größe");
  expect(found(["get", "GET"], "Get")).toBe("unclear");
});

test("whether a list may have something to leave out", () => {
  expect(table("a").hides).toBe(true);
  expect(table("a", "*").hides).toBe(false);
  const denied = { name: "b", path: "/b", isDenied: true, price: null };
  expect(new ToolTable({ unpaid: "auto", telling: true, tools: [denied] }).hides).toBe(true);
});

test("paths of plans are no other paths", () => {
  expect(isToolPath("/mcp%23tool.71756f7465")).toBe(true);
  expect(isToolPath("/mcp%23from.")).toBe(true);
  expect(isToolPath("/mcp")).toBe(false);
  expect(isToolPath("/mcp%23other")).toBe(false);
});
