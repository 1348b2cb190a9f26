/**
 * Keeps the operator's overview up to date while somebody looks at it: the page is asked for again, and the parts that
 * read differently are put in place of those that were there.
 */

/** Pause between two looks, milliseconds. */
const AGAIN_MS = 5_000;

const live = document.querySelector("#live");

if (live !== null) void follow(live);

async function follow(live: Element): Promise<void> {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    if (document.visibilityState !== "visible") continue;
    const said = await look().catch(() => "The gateway does not answer; trying again.");
    if (live.textContent !== said) live.textContent = said;
  }
}

async function look(): Promise<string> {
  const answer = await fetch(location.href, { cache: "no-store" });
  if (!answer.ok) throw new Error(String(answer.status));
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of next.querySelectorAll("main > section")) {
    const old = document.getElementById(part.id);
    if (old !== null && old.innerHTML !== part.innerHTML) old.innerHTML = part.innerHTML;
  }
  return "Live.";
}
