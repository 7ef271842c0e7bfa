// What every page can do without a server: explain words, enlarge figures, say that a table is
// wider than the screen, print what is folded. Without it the page can still be read: a word is a
// link to its explanation.
"use strict";
{
  const explanation = document.getElementById("explanation");
  let explained = null;

  function explain(term) {
    const word = document.getElementById(term.hash.slice(1));
    const title = document.createElement("b");
    title.textContent = word.previousElementSibling.textContent;
    explanation.replaceChildren(title, word.textContent);
    explanation.hidden = false;
    explained = term;
    placeBeside(term.getBoundingClientRect());
  }

  // Below the word, or above it where there is no room; never beyond an edge of the window.
  function placeBeside(word) {
    const gap = 6, edge = 8;
    const { offsetWidth: width, offsetHeight: height } = explanation;
    const window_ = document.documentElement;
    const left = Math.min(word.left, window_.clientWidth - width - edge);
    const below = word.bottom + gap;
    const above = word.top - gap - height;
    const top = below + height > window_.clientHeight - edge && above >= edge ? above : below;
    explanation.style.left = `${Math.max(edge, left)}px`;
    explanation.style.top = `${Math.max(edge, Math.min(top, window_.clientHeight - height - edge))}px`;
  }

  function unexplain() {
    explanation.hidden = true;
    explained = null;
  }

  const termOf = (event) => event.target.closest?.("a.term");

  document.addEventListener("mouseover", (event) => {
    const term = termOf(event);
    if (term) explain(term);
    else if (explained !== document.activeElement && !explanation.contains(event.target)) unexplain();
  });
  document.addEventListener("focusin", (event) => (termOf(event) ? explain(termOf(event)) : unexplain()));
  document.addEventListener("click", (event) => {
    const term = termOf(event);
    if (!term) {
      if (!explanation.contains(event.target)) unexplain();
      return;
    }
    event.preventDefault();
    explain(term);
  });
  // The box keeps to the window: it follows its word, and goes when the word is gone.
  const follow = () => explained && placeBeside(explained.getBoundingClientRect());
  const leave = () => explained && !inSight(explained.getBoundingClientRect()) && unexplain();
  const inSight = (word) => word.bottom > 0 && word.top < document.documentElement.clientHeight;
  document.addEventListener("scroll", follow, { capture: true, passive: true });
  document.addEventListener("scrollend", leave, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && unexplain());

  const zoom = document.getElementById("zoom");

  function enlarge(link) {
    const image = link.querySelector("img").cloneNode();
    zoom.querySelector("img")?.remove();
    zoom.append(image);
    zoom.setAttribute("aria-label", link.closest("figure").querySelector("b").textContent);
    zoom.showModal();
  }

  for (const link of document.querySelectorAll("figure > a.enlarge")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      enlarge(link);
    });
  }
  zoom.querySelector("button").addEventListener("click", () => zoom.close());
  zoom.addEventListener("click", (event) => event.target !== zoom.querySelector("button") && zoom.close());

  // A box that scrolls can be reached by keyboard, and says that it scrolls.
  function mark(box) {
    const wider = box.scrollWidth > box.clientWidth + 1;
    const scrolls = wider || box.scrollHeight > box.clientHeight + 1;
    box.classList.toggle("wider", wider);
    hintOf(box).hidden = !wider;
    for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", nameOf(box)]]) {
      if (scrolls) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  }

  const nameOf = (box) => box.querySelector("caption")?.textContent.trim() || "Table";

  function hintOf(box) {
    if (!box.previousElementSibling?.matches(".hint")) {
      const hint = document.createElement("p");
      hint.className = "hint";
      hint.textContent = "The table is wider than the screen: scroll it sideways →";
      box.before(hint);
    }
    return box.previousElementSibling;
  }

  const watch = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  for (const box of document.querySelectorAll(".scroll")) watch.observe(box);

  // A print shows what is folded, and the screen afterwards what it showed before.
  let folded = [];
  matchMedia("print").addEventListener("change", (event) => {
    if (event.matches) folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = event.matches;
  });
}
