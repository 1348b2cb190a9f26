/**
 * Shows what was bought, as it comes. Documents go into a frame that runs no script and has no origin: they come from
 * the seller, but this page is the one that wallets have been connected to.
 */
import { button, link, make } from "./element.ts";
import { fileName } from "./file-name.ts";

/** Longest text that is shown; all of it can be saved. */
const MAX_SHOWN = 500_000;

/** Puts the answer into `place`; resolves when it is there, and rejects where it breaks off. */
export async function showAnswer(response: Response, place: HTMLElement): Promise<void> {
  const { headers } = response;
  const full = headers.get("Content-Type") ?? "";
  const type = full.replace(/[;\s].*/, "").toLowerCase();
  const isDocument = /^(?:text\/html|application\/xhtml\+xml)$/.test(type);
  const isText = /^text\/|[/+](?:json|xml|javascript|yaml|ndjson)$/.test(type) && !isDocument;
  const text = make("pre");
  // A long one is scrolled with the keyboard, too.
  text.tabIndex = 0;
  place.replaceChildren(...(isText ? [text] : []));
  const blob = await collect(response, place, full, isText ? text : null);
  const url = URL.createObjectURL(blob);
  const save = link("Save what was bought", url);
  save.download = fileName(headers.get("Content-Disposition"), location.pathname, type);
  if (isDocument) {
    const frame = make("iframe");
    frame.title = "What was bought";
    frame.sandbox.value = "allow-popups allow-popups-to-escape-sandbox";
    frame.srcdoc = `<base target="_blank">${await blob.text()}`;
    place.replaceChildren(frame, save);
  } else if (type.startsWith("image/")) {
    const image = make("img");
    image.alt = "What was bought";
    image.src = url;
    place.replaceChildren(image, save);
  } else if (isText) {
    if (type.endsWith("json")) text.textContent = indented(await blob.text()).slice(0, MAX_SHOWN);
    place.replaceChildren(text, save);
  } else {
    const open = link("Open what was bought", url);
    open.target = "_blank";
    place.replaceChildren(...(blob.size > 0 ? [open, save] : []));
  }
}

/** Reads all of it, and says how much there is. `text`: where it is shown meanwhile; null: nowhere. */
async function collect(
  { body, headers }: Response,
  place: HTMLElement,
  type: string,
  text: HTMLElement | null,
): Promise<Blob> {
  const reader = body?.getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const progress = make("p");
  // What is sent compressed has another length than what comes of it.
  const total = headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
  place.append(progress);
  // Of what has no length nobody knows whether it ends.
  if (!total) place.append(button("Stop here", () => reader?.cancel()));
  const decoder = new TextDecoder();
  let bytes = 0;
  let shown = 0;
  for (;;) {
    const { done = true, value } = (await reader?.read()) ?? {};
    if (done || !value) break;
    parts.push(value);
    bytes += value.length;
    progress.textContent = `${kilobytes(bytes)}${total > 0 ? ` of ${kilobytes(total)}` : ""} kB`;
    if (text && shown < MAX_SHOWN) {
      const more = decoder.decode(value, { stream: true }).slice(0, MAX_SHOWN - shown);
      shown += more.length;
      text.append(more);
    }
  }
  return new Blob(parts, { type });
}

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(1);
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
