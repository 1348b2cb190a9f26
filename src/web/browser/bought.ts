/**
 * Shows what was bought. Documents go into a frame that runs no script and has no origin: they come from the
 * seller, but this page is the one that wallets have been connected to.
 */
import { link, make } from "./element.ts";

/** Longest text that is shown; all of it can be saved. */
const MAX_SHOWN = 500_000;

/** Elements for the answer, the most useful first. */
export async function showAnswer(response: Response): Promise<HTMLElement[]> {
  const blob = await response.blob();
  const type = blob.type.replace(/[;\s].*/, "");
  const url = URL.createObjectURL(blob);
  const save = link("Save what was bought", url);
  save.download = location.pathname.split("/").pop() || "bought";
  if (/^(?:text\/html|application\/xhtml\+xml)$/.test(type)) {
    const frame = make("iframe");
    frame.title = "What was bought";
    frame.sandbox.value = "allow-popups allow-popups-to-escape-sandbox";
    frame.srcdoc = `<base target="_blank">${await blob.text()}`;
    return [frame, save];
  }
  if (type.startsWith("image/")) {
    const image = make("img");
    image.alt = "What was bought";
    image.src = url;
    return [image, save];
  }
  if (/^text\/|[/+](?:json|xml|javascript|yaml)$/.test(type)) {
    const text = await blob.text();
    const shown = type.endsWith("json") ? indented(text) : text;
    return [make("pre", shown.slice(0, MAX_SHOWN)), save];
  }
  const open = link("Open what was bought", url);
  open.target = "_blank";
  return blob.size > 0 ? [open, save] : [];
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
