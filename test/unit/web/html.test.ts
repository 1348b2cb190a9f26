/** What text can do to a page: nothing but to be read. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeText, followable, html, jsonData, trusted } from "../../../src/web/html.ts";

const HOSTILE = `</script><img src=x onerror="alert(1)">'\`&amp;`;

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  "#39": "'",
  "#96": "`",
};

function readBack(written: string): string {
  return written.replace(/&([a-z]+|#\d+);/g, (_, name: string) => ENTITIES[name] ?? "?");
}

describe("the html template", () => {
  it("writes text and attributes so that neither ends before its time", () => {
    const page = html`<p title="${HOSTILE}">${HOSTILE}</p>`.toString();
    expect(page.match(/[<>]/g)).toEqual(["<", ">", "<", ">"]);
    expect(page.match(/"/g)).toEqual(['"', '"']);
    expect(page).toContain("&amp;amp;");
  });

  it("takes markup, lists and nothing at all as what they are", () => {
    const rows = ["a<", "b"].map((name) => html`<li>${name}</li>`);
    expect(String(html`<ul>${rows}${null}${false}${7}</ul>`)).toBe(
      "<ul><li>a&lt;</li><li>b</li>7</ul>",
    );
  });

  it("follows no link that is a script, however it is written", () => {
    const scripts = [
      "javascript:1",
      "JaVaScRiPt:1",
      " \tjava\nscript:1",
      "data:text/html,1",
      "vbscript:1",
    ];
    for (const url of scripts) {
      expect(String(html`<a href="${url}">x</a>`), url).toBe('<a href="#">x</a>');
    }
    for (const url of ["https://a.example/?b=c:d", "/a:b", "?a:b", "#a:b", "a/b"]) {
      expect(followable(url)).toBe(url);
    }
  });

  it("refuses a place where no writing is safe", () => {
    const text = "x";
    expect(() => html`<p ${text}></p>`).toThrow("outside of double quotes");
    expect(() => html`<p title=${text}></p>`).toThrow("outside of double quotes");
    expect(() => html`<!-- ${text} -->`).toThrow("outside of double quotes");
    expect(() => html`<p onclick="${text}"></p>`).toThrow("attribute onclick");
    expect(() => html`<iframe srcdoc="${text}"></iframe>`).toThrow("attribute srcdoc");
    expect(() => html`<script>${text}</script>`).toThrow("text in a script");
    expect(() => html`<style>${text}</style>`).toThrow("text in a script");
    expect(() => html`<p title="${trusted("<b>")}"></p>`).toThrow("markup in an attribute");
    expect(String(html`<script>${trusted("a<b")}</script><p>${"<"}</p>`)).toBe(
      "<script>a<b</script><p>&lt;</p>",
    );
  });

  it("gives any text back as the text that it was", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const written = escapeText(text);
        expect(written).not.toMatch(/[<>"'`]/);
        expect(readBack(written)).toBe(text);
      }),
    );
  });
});

describe("data for a script", () => {
  it("is read back as it was, and can neither end the script nor begin a comment", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string({ unit: "binary" }), (value, text) => {
        const written = jsonData({
          value,
          text,
          hostile: `<!--<script>${HOSTILE}]]>\u2028`,
        }).toString();
        expect(written).not.toMatch(/[<>&\u2028\u2029]/);
        const read: unknown = JSON.parse(written);
        expect(read).toEqual(
          JSON.parse(JSON.stringify({ value, text, hostile: `<!--<script>${HOSTILE}]]>\u2028` })),
        );
      }),
    );
  });
});
