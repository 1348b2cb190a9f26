/**
 * Keeps the operator's page of requests up to date: entries come as markup that the gateway has written, in the
 * order in which they stand. What is open stays open, and the keyboard stays where it is.
 */

/** When a page that was turned away asks again, milliseconds: the gateway may be starting. */
const RETRY_MS = 3_000;

interface Update {
  readonly items: readonly { readonly id: string; readonly html: string }[];
  /** All ids of the list; absent where more of this update is to come. */
  readonly order?: readonly string[];
}

const list = document.querySelector<HTMLOListElement>("#list");
const live = document.querySelector("#live");
const pause = document.querySelector<HTMLButtonElement>("#pause");

if (list !== null && live !== null && pause !== null) start(list, live, pause);

function start(list: HTMLOListElement, live: Element, pause: HTMLButtonElement): void {
  let version = list.dataset["version"] ?? "0";
  let source: EventSource | null = null;
  let isPaused = false;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  const say = (text: string): void => {
    if (live.textContent !== text) live.textContent = text;
  };
  const follow = (): void => {
    const query = list.dataset["query"] ?? "";
    const events = new EventSource(`/payments/events?after=${version}${query && `&${query}`}`);
    source = events;
    events.addEventListener("open", () => say("Live: newest first, UTC."));
    events.addEventListener("error", () => {
      say("The gateway does not answer; trying again.");
      // A browser asks again after a lost connection, but not after an answer that is none.
      if (events.readyState === EventSource.CLOSED) waiting = setTimeout(lookAgain, RETRY_MS);
    });
    events.addEventListener("list", (event) => {
      version = event.lastEventId === "" ? version : event.lastEventId;
      apply(list, JSON.parse(String(event.data)) as Update);
    });
  };
  // A tab that nobody sees gives its connection back: browsers have few of them for one host.
  const lookAgain = (): void => {
    clearTimeout(waiting);
    source?.close();
    if (!isPaused && document.visibilityState === "visible") follow();
  };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    if (isPaused) say("Paused.");
    pause.textContent = isPaused ? "Go on" : "Pause";
    lookAgain();
  });
  document.addEventListener("visibilitychange", lookAgain);
  lookAgain();
}

function apply(list: HTMLOListElement, { items, order }: Update): void {
  for (const { id, html } of items) put(list, id, html);
  if (order === undefined) return;
  const wanted = new Set(order.map((id) => `r-${id}`));
  const gone = Array.from(list.children).filter(({ id }) => !wanted.has(id));
  for (const child of gone) child.remove();
  let place: Element | null = list.firstElementChild;
  for (const id of wanted) {
    const item = document.getElementById(id);
    if (item === null) continue;
    if (item === place) place = place.nextElementSibling;
    else list.insertBefore(item, place);
  }
}

function put(list: HTMLOListElement, id: string, markup: string): void {
  const template = document.createElement("template");
  template.innerHTML = markup;
  const next = template.content.querySelector("li");
  if (next === null) return;
  const old = document.getElementById(`r-${id}`);
  if (old === null) {
    list.prepend(next);
    return;
  }
  const details = old.querySelector("details");
  const following = next.querySelector("details");
  if (details?.open === true && following !== null) following.open = true;
  const focused = document.activeElement;
  const links = [...old.querySelectorAll("summary,a")];
  const index = focused === null ? -1 : links.indexOf(focused);
  old.replaceWith(next);
  if (index < 0) return;
  const target = [...next.querySelectorAll<HTMLElement>("summary,a")][index];
  target?.focus({ preventScroll: true });
}
