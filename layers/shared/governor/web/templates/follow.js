// Follows the record while its steps are in progress. Only what has changed is replaced, and what a reader has
// opened, typed or focused stays. Without JavaScript the record's link does it.
"use strict";
(() => {
  const EVERY_MS = 3000;
  // A step may wait for days. Records that stay open must not look like a flood of requests, after which silence
  // counts no more.
  const QUICK_FOR_MS = 60_000;
  const LATER_EVERY_MS = 30_000;
  const openedAt = Date.now();
  const PARTS = [".tiles", "#progress"];
  const FIELDS = "input:not([type=hidden]), select, textarea";

  /** The name by which an element is found again after its part of the page was replaced. */
  const nameOf = (element) => {
    const form = element.closest("form")?.getAttribute("aria-label") ?? "";
    const words = element.matches(FIELDS) ? "" : element.textContent.trim();
    return [element.tagName, form, element.id, element.name, words].join("|");
  };

  /** The text of a part, without the token of its forms, and whatever is open in it. */
  const textOf = (part) => {
    const copy = part.cloneNode(true);
    for (const token of copy.querySelectorAll("[name=csrf]")) token.remove();
    for (const folded of copy.querySelectorAll("details")) folded.removeAttribute("open");
    return copy.innerHTML;
  };

  const buttonsOf = (page) => [...page.querySelectorAll("main button")].map(nameOf).join();

  /** What every part of the page agrees with: what may be done now, and the headline, which says the state. */
  const stageOf = (page) => `${page.querySelector("h1")?.textContent}|${buttonsOf(page)}`;

  /** What the reader has opened, typed and focused in a part. */
  const stateOf = (part) => ({
    open: new Map([...part.querySelectorAll("details")].map((one) => [nameOf(one.querySelector("summary")), one.open])),
    fields: new Map([...part.querySelectorAll(FIELDS)].map((one) => [nameOf(one), [one.value, one.checked]])),
    focused: part.contains(document.activeElement) ? nameOf(document.activeElement) : null,
  });

  const restore = (part, state) => {
    for (const folded of part.querySelectorAll("details")) {
      const isOpen = state.open.get(nameOf(folded.querySelector("summary")));
      if (isOpen !== undefined) folded.open = isOpen;
    }
    for (const field of part.querySelectorAll(FIELDS)) {
      const typed = state.fields.get(nameOf(field));
      if (typed !== undefined) [field.value, field.checked] = typed;
    }
    const focusable = [...part.querySelectorAll(`a, button, summary, ${FIELDS}`)];
    if (state.focused) focusable.find((one) => nameOf(one) === state.focused)?.focus({ preventScroll: true });
  };

  const replace = (shown, now) => {
    if (!shown || !now || textOf(shown) === textOf(now)) return;
    const state = stateOf(shown);
    shown.replaceChildren(...now.childNodes);
    restore(shown, state);
  };

  const followLater = () => setTimeout(follow, Date.now() - openedAt < QUICK_FOR_MS ? EVERY_MS : LATER_EVERY_MS);

  const follow = async () => {
    if (document.hidden) {
      followLater();
      return;
    }
    let again = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", redirect: "manual" });
      again = answer.ok || answer.status === 429 || answer.status >= 500;
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        // What may be done now has forms of its own, as a hold until EC2 is called and an undo after it.
        const parts = stageOf(page) === stageOf(document) ? PARTS : ["main"];
        for (const part of parts) replace(document.querySelector(part), page.querySelector(part));
        again = page.querySelector("script") !== null;
      }
    } catch (error) {
      console.warn("the record could not be refreshed, and will be again:", error.message);
    }
    if (again) followLater();
  };
  followLater();
})();
