// Keys and timing. Everything works without this file; the server then takes the time since it sent the page.
"use strict";

const form = document.getElementById("answers");
const questions = [...form.querySelectorAll("fieldset")];
const seconds = document.getElementById("seconds");
let active = 0;

// Time is counted while the page can be seen.
let total = 0;
let since = document.visibilityState === "visible" ? performance.now() : null;

function pause() {
  if (since !== null) total += performance.now() - since;
  since = null;
}

document.addEventListener("visibilitychange", () => {
  pause();
  if (document.visibilityState === "visible") since = performance.now();
});

form.addEventListener("submit", (event) => {
  const running = since === null ? 0 : performance.now() - since;
  seconds.value = ((total + running) / 1000).toFixed(2);
  // A second click must not send the form twice; the button stays usable for those who come back to this page.
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});

window.addEventListener("pageshow", () => delete form.dataset.sent);

// One question is marked: keys answer it.
function mark(place, scroll) {
  active = Math.max(0, Math.min(questions.length - 1, place));
  questions.forEach((question, number) => question.classList.toggle("active", number === active));
  if (scroll) questions[active].scrollIntoView({ block: "nearest" });
}

function answered(question) {
  return question.querySelector("input:checked") !== null;
}

function firstOpen() {
  const place = questions.findIndex((question) => !answered(question));
  return place < 0 ? questions.length - 1 : place;
}

questions.forEach((question, number) => {
  question.addEventListener("change", () => {
    question.classList.remove("missing");
    mark(number, false);
  });
  question.addEventListener("focusin", () => mark(number, false));
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.closest(".skip") || target.matches("input:not([type=radio]), textarea, summary, a")) return;
  if (/^[1-5]$/.test(event.key)) {
    const option = questions[active].querySelectorAll("input")[Number(event.key) - 1];
    option.checked = true;
    option.dispatchEvent(new Event("change", { bubbles: true }));
    const next = questions.findIndex((question, number) => number > active && !answered(question));
    mark(next < 0 ? firstOpen() : next, true);
    document.activeElement.blur();
    event.preventDefault();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !target.matches("input")) {
    mark(active + (event.key === "ArrowDown" ? 1 : -1), true);
    event.preventDefault();
  } else if (event.key === "Enter" && !target.matches("button")) {
    form.requestSubmit(document.getElementById("save"));
    event.preventDefault();
  } else if (event.key.toLowerCase() === "b") {
    const back = document.getElementById("back");
    if (back) back.click();
  }
});

form.querySelector(".keys").hidden = false;
mark(firstOpen(), false);
