/** Under which name what was bought is saved. */

/** Longest name that is proposed, characters. */
const MAX_NAME = 120;
/** Of types whose files do not end in the last part of their name. */
const ENDINGS: Readonly<Record<string, string>> = {
  plain: "txt",
  markdown: "md",
  jpeg: "jpg",
  "svg+xml": "svg",
  javascript: "js",
  "event-stream": "txt",
  "octet-stream": "bin",
  mpeg: "mp3",
};

/**
 * As the seller names it in Content-Disposition (RFC 6266), else after the URL, with an ending by its type.
 * @param disposition null: there is none
 * @param type without parameters; "": nobody says
 */
export function fileName(disposition: string | null, path: string, type: string): string {
  const named = safe(nameIn(disposition ?? ""));
  if (named) return named;
  const name = safe(decoded(path)) || "bought";
  if (/\.\w{1,8}$/.test(name) || !type) return name;
  const kind = type.replace(/^.*\/(?:x-)?/, "");
  const ending = ENDINGS[kind] ?? kind.replace(/.*\+/, "");
  return /^\w{1,8}$/.test(ending) ? `${name}.${ending}` : name;
}

function nameIn(disposition: string): string {
  const encoded = /\bfilename\*\s*=\s*(?:utf-8|iso-8859-1)'[^']*'([^;\s]+)/i.exec(disposition)?.[1];
  if (encoded !== undefined) return decoded(encoded);
  const [, quoted, plain] =
    /\bfilename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]+))/i.exec(disposition) ?? [];
  return quoted?.replace(/\\(.)/g, "$1") ?? plain ?? "";
}

/** Without folders, and nothing that hides what it ends in. */
function safe(name: string): string {
  return name
    .replace(/^[^]*[/\\]/, "")
    .replace(/[\p{C}<>:"|?*]/gu, "")
    .slice(-MAX_NAME)
    .replace(/^[.\s]+|[.\s]+$/g, "");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
