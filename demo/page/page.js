// Keeps the page up to date: gets it again twice a second, replaces what has changed, moves the cards.
"use strict";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
let showing = Promise.resolve();

function places() {
  const cards = document.querySelectorAll(".card");
  return new Map([...cards].map((card) => [card.id, card.getBoundingClientRect()]));
}

function move(before) {
  for (const card of document.querySelectorAll(".card")) {
    const [old, now] = [before.get(card.id), card.getBoundingClientRect()];
    const timing = { duration: 350, easing: "ease-out" };
    if (!old) {
      card.animate({ opacity: [0, 1] }, timing);
    } else if (old.x !== now.x || old.y !== now.y) {
      card.animate({ transform: [`translate(${old.x - now.x}px, ${old.y - now.y}px)`, "none"] }, timing);
    }
  }
}

function replace(part, latest) {
  if (!latest || part.innerHTML === latest.innerHTML) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  part.replaceChildren(...latest.childNodes);
  if (focused) (document.getElementById(focused.id) ?? counterpart(focused))?.focus({ preventScroll: true });
}

// The button that took the place of another one: start the broker, stop the broker.
function counterpart(button) {
  const [, action, subject] = button.id.match(/^button-(start|stop)-(.+)$/) ?? [];
  return subject && document.getElementById(`button-${action === "start" ? "stop" : "start"}-${subject}`);
}

async function show(answer) {
  const latest = new DOMParser().parseFromString(await answer.text(), "text/html");
  const before = calm.matches ? null : places();
  for (const part of document.querySelectorAll("[data-live]")) replace(part, latest.getElementById(part.id));
  if (before) move(before);
}

// One request at a time, so that an older answer never replaces a newer one.
function get(...request) {
  showing = showing.then(async () => {
    try {
      await show(await fetch(...request));
      document.getElementById("ended").hidden = true;
    } catch {
      document.getElementById("ended").hidden = false;
    }
  });
  return showing;
}

document.addEventListener("submit", (event) => {
  event.preventDefault();
  get(event.target.action, { method: "POST" }); // the answer redirects to the page
});

async function poll() {
  if (!document.hidden) await get("/");
  setTimeout(poll, 500);
}

poll();
