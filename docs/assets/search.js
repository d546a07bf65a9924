/* The search box takes questions in a reader's words: "how do I undo a stop?".

The theme's search matches the beginnings of words: "a" would find "accelerator", and "asked" would
not find "ask". So words such as "a" and "how", and endings such as "-ed", are removed from a query
before the search's worker gets it. */
"use strict";
(() => {
  const QUERY = 2; // the theme's type of a message with a query
  const LEFT_OUT = new Set(
    `a an and are as at be been by can could did do does for from get had has have how i if in into
    is it its may me my of on or our should so than that the their them then there these they this
    to was we were what when where which who why will with would you your`.split(/\s+/),
  );
  const ENDING = /^(\w{3,}?)(?:(?<!th)ing|(?<!e)ed|(?<!s)s)$/;

  function inWordsOfThePages(query) {
    const words = query.split(/\s+/).map((word) => word.replace(/[?!.,;]+$/, ""));
    const kept = words.filter((word) => word && !LEFT_OUT.has(word.toLowerCase()));
    return kept.length ? kept.map((word) => word.replace(ENDING, "$1")).join(" ") : query;
  }

  window.Worker = class extends window.Worker {
    postMessage(message, ...rest) {
      const isQuery = message.type === QUERY && typeof message.data === "string";
      const sent = isQuery ? { ...message, data: inWordsOfThePages(message.data) } : message;
      super.postMessage(sent, ...rest);
    }
  };
})();
