// Applies the chosen theme before the first paint. A classic script, because modules run after it.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("kinformer-theme");
  } catch {
    // Storage can be blocked; the theme of the system applies then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
