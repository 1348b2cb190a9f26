/** Searches while one types, by asking the gateway for the same page, and copies commands at a click. */

/** How long after the last key the search begins, milliseconds. */
const TYPING_MS = 200;

const form = document.querySelector<HTMLFormElement>("#search");
const results = document.querySelector("#results");
const said = document.querySelector("#said");

if (form !== null && results !== null && said !== null) start(form, results, said);

function start(form: HTMLFormElement, results: Element, said: Element): void {
  let typed: ReturnType<typeof setTimeout> | undefined;
  let asking = new AbortController();
  const search = async (): Promise<void> => {
    asking.abort();
    asking = new AbortController();
    const words = new URLSearchParams();
    const text = form.querySelector("input")?.value.trim() ?? "";
    if (text !== "") words.set("q", text);
    const address = `?${words.toString()}`;
    try {
      const answer = await fetch(address, { signal: asking.signal });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = next.querySelector("#results");
      if (!answer.ok || found === null) return;
      results.replaceChildren(...found.childNodes);
      history.replaceState(null, "", text === "" ? location.pathname : address);
      said.textContent = results.querySelector("#count")?.textContent ?? "";
      offerCopies(results, said);
    } catch {
      // A later search took its place, or the gateway does not answer; the button asks again.
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => void search(), TYPING_MS);
  });
  offerCopies(results, said);
}

/** Browsers let pages copy over https and on this machine alone. */
function offerCopies(results: Element, said: Element): void {
  if (navigator.clipboard === undefined) return;
  for (const button of results.querySelectorAll<HTMLButtonElement>(".copy")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const text = button.parentElement?.querySelector("pre")?.textContent ?? "";
      navigator.clipboard.writeText(text).then(
        () => (said.textContent = "Copied."),
        () => (said.textContent = "The browser does not let this page copy."),
      );
    });
  }
}
