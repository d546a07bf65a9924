// Follows the record while its steps are in progress. Only what has changed is replaced, so that a reader keeps
// their place; where other answers are possible, the page is loaded anew. Without JavaScript the record's link does it.
"use strict";
(() => {
  const EVERY_MS = 3000;
  const forms = (page) => [...page.querySelectorAll("main button")].map((one) => one.value + one.textContent).join();
  const follow = async () => {
    let again = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", redirect: "manual" });
      again = answer.ok || answer.status === 429 || answer.status >= 500;
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of ["h1", ".tiles", "#progress"]) {
          const shown = document.querySelector(part);
          const now = page.querySelector(part);
          if (shown && now && shown.innerHTML !== now.innerHTML) shown.replaceChildren(...now.childNodes);
        }
        // What may be done now has forms of its own, as a hold until EC2 is called and an undo after it.
        if (forms(page) !== forms(document) && !document.activeElement?.closest("form")) location.reload();
        again = page.querySelector("script") !== null;
      }
    } catch (error) {
      console.warn("the record could not be refreshed, and will be again:", error.message);
    }
    if (again) setTimeout(follow, EVERY_MS);
  };
  setTimeout(follow, EVERY_MS);
})();
