// What a page does with JavaScript that it can do without, less comfortably.
"use strict";

// Live parts: fetch the page again and replace the parts that have changed. The wait grows with the
// time that the server takes, and a page that nobody sees asks for nothing.
const main = document.querySelector("main[data-refresh]");

async function refresh() {
  const began = performance.now();
  const stale = document.querySelector("[data-stale]");
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (response.redirected || response.status === 401) {
      delete main.dataset.refresh;
      location.reload();
    } else if (response.ok) {
      replaceLiveParts(new DOMParser().parseFromString(await response.text(), "text/html"));
    }
    stale.hidden = response.ok;
  } catch { stale.hidden = false; } // the server is away: the next look may find it
  return performance.now() - began;
}

function replaceLiveParts(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const part = fresh.getElementById(old.id);
    const inUse = old.contains(document.activeElement) || old.querySelector("details[open]") || hasSelection(old);
    if (part && !inUse && part.outerHTML !== old.outerHTML) old.replaceWith(document.adoptNode(part));
  }
  document.title = fresh.title;
  const next = fresh.querySelector("main");
  if (next && !next.dataset.refresh) delete main.dataset.refresh;
}

function hasSelection(element) {
  const selection = getSelection();
  return !selection.isCollapsed && element.contains(selection.anchorNode);
}

async function keepFresh() {
  while (main.dataset.refresh) {
    const took = document.hidden ? 0 : await refresh();
    const wait = Math.max(Number(main.dataset.refresh || 1) * 1000, 20 * took);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
if (main) setTimeout(keepFresh, Number(main.dataset.refresh) * 1000);

// Select all records of a page, or many with the Shift key.
const all = document.querySelector("[data-select-all]");
const boxes = [...document.querySelectorAll("input[name=record][type=checkbox]")];
if (all) {
  let last = null;
  all.hidden = false;
  all.addEventListener("change", () => boxes.forEach((box) => { box.checked = all.checked; }));
  boxes.forEach((box) => box.addEventListener("click", (event) => {
    if (event.shiftKey && last) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
      boxes.slice(from, to + 1).forEach((each) => { each.checked = box.checked; });
    }
    last = box;
  }));
}

// The key / goes to the search.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey;
  const field = typing ? null : document.querySelector(`[data-focus-key="${CSS.escape(event.key)}"]`);
  if (field) { event.preventDefault(); field.focus(); }
});

// Light or dark, other than the system has it.
const theme = document.querySelector("[data-theme-switch]");
const isDark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const stored = (() => { try { return localStorage.getItem("postroom-theme"); } catch { return null; } })();
if (stored) document.documentElement.dataset.theme = stored;
if (theme) {
  const name = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.hidden = false;
  name();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("postroom-theme", document.documentElement.dataset.theme); } catch { /* private */ }
    name();
  });
}
