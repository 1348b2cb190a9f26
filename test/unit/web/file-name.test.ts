/** Under which name a browser saves what was bought, whatever a seller and a URL say. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { fileName } from "../../../src/web/browser/file-name.ts";

test.each([
  ['attachment; filename="report 7.pdf"', "report 7.pdf"],
  ["attachment; filename=report.pdf; size=3", "report.pdf"],
  [`inline; filename="old.txt"; filename*=UTF-8''B%C3%BCcher%20%E2%82%AC.csv`, "Bücher €.csv"],
  ["attachment; filename*=iso-8859-1'en'plain.csv", "plain.csv"],
  [String.raw`attachment; filename="a \"quoted\" name.txt"`, "a quoted name.txt"],
  ["attachment; filename=../../etc/passwd.txt", "passwd.txt"],
  [String.raw`attachment; filename="C:\\folder\\file.txt"`, "file.txt"],
  ["attachment; filename*=UTF-8''photo%E2%80%AEgpj.exe", "photogpj.exe"],
  ["attachment; filename=.hidden", "hidden"],
  ["attachment; filename*=UTF-8''%ff.txt", "%ff.txt"],
])("of %s: %s", (disposition, name) => {
  expect(fileName(disposition, "/weather", "text/plain")).toBe(name);
});

test.each([
  ["/v1/weather", "application/json", "weather.json"],
  ["/v1/weather", "text/plain", "weather.txt"],
  ["/photos/7", "image/jpeg", "7.jpg"],
  ["/photos/7", "image/svg+xml", "7.svg"],
  ["/v1/problem", "application/problem+json", "problem.json"],
  ["/photos/7.png", "image/png", "7.png"],
  ["/events", "text/event-stream", "events.txt"],
  ["/b%C3%BCcher", "application/pdf", "bücher.pdf"],
  ["/%ff", "application/zip", "%ff.zip"],
  ["/", "application/octet-stream", "bought.bin"],
  ["/..", "", "bought"],
  ["/a", "application/vnd.ms-excel", "a"],
  ["/a%2Fb", "text/csv", "b.csv"],
])("of nothing but %s and %s: %s", (path, type, name) => {
  for (const disposition of [null, "attachment", 'inline; filename=""']) {
    expect(fileName(disposition, path, type)).toBe(name);
  }
});

test("no name leads to a folder, hides its end or is endless", () => {
  const text = fc.string({ unit: "binary", maxLength: 300 });
  const piece = fc.oneof(text, fc.constantFrom("../", "\\", "\u202e", ".", " ", "%2F", "%00"));
  const any = fc.array(piece).map((parts) => parts.join(""));
  fc.assert(
    fc.property(any, any, fc.constantFrom("", "text/csv"), (said, path, type) => {
      for (const disposition of [
        said,
        `attachment; filename="${said}"`,
        `a; filename*=UTF-8''${said}`,
      ]) {
        const name = fileName(disposition, `/${path}`, type);
        expect(name).toMatch(/^[^./\\\s][^/\\]*$/u);
        expect(name).not.toMatch(/\p{C}/u);
        expect(name.length).toBeLessThan(140);
      }
    }),
  );
});
