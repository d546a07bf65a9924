(() => {
  const banner = document.getElementById("simulated");
  const address = "/simulated/banner?at=" + encodeURIComponent(location.pathname);
  let shown = "";
  const look = async () => {
    try {
      const answer = await fetch(address), text = await answer.text();
      // What has the keyboard is not taken away.
      if (answer.ok && text !== shown && !banner.contains(document.activeElement)) {
        banner.innerHTML = shown = text;
      }
    } catch { /* It has ended. */ }
    setTimeout(look, 2000);
  };
  setTimeout(look, 2000);
})();
