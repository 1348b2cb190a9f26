/** Makes elements whose content is text, whatever it says. */

export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  text = "",
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

export function link(text: string, href: string): HTMLAnchorElement {
  const made = make("a", text);
  made.href = href;
  return made;
}

export function button(text: string, act: () => unknown): HTMLButtonElement {
  const made = make("button", text);
  made.addEventListener("click", act);
  return made;
}

/** An element that the page has. */
export function byId(id: string): HTMLElement {
  return document.getElementById(id) as HTMLElement;
}
