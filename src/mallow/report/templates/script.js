"use strict";

// Tables sort by a click on, or Enter in, a heading; the buttons exist only where this script runs.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const order = (a, b) => {
        const [first, second] = [key(a), key(b)];
        if (first === second) return 0;
        const [one, other] = [first, second].map((each) => Number(each.replace("inf", "Infinity")));
        return Number.isNaN(one - other) ? first.localeCompare(second) : one - other;
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? order(b, a) : order(a, b)));
      table.tBodies[0].append(...rows);
    });
  });
}

// The numbers of the curve under the pointer, or of the one that has the focus; a screen reader has them from the curve itself.
for (const figure of document.querySelectorAll("figure.big")) {
  const readout = figure.querySelector(".readout");
  const curves = [...figure.querySelectorAll(".curve")];
  const none = "Point at a curve, or press Tab, for its numbers.";
  readout.hidden = false;
  readout.textContent = none;
  for (const curve of curves) {
    curve.addEventListener("pointerenter", () => { readout.textContent = curve.dataset.says; });
    curve.addEventListener("focus", () => {
      readout.textContent = curve.dataset.says;
      readout.scrollIntoView({block: "nearest"});
    });
    for (const end of ["pointerleave", "blur"]) curve.addEventListener(end, () => {
      readout.textContent = figure.querySelector(".curve:focus")?.dataset.says ?? none;
    });
  }
}

// Texts to copy: to the clipboard, or selected where the browser does not allow that.
for (const source of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = `Copy ${source.dataset.copy}`;
  source.after(button);
  button.addEventListener("click", async () => {
    const text = source.tagName === "PRE" ? source.textContent : source.textContent.replace(/\s+/g, " ").trim();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
}

const toggle = document.getElementById("toggle");
if (toggle) {
  const systems = [...document.querySelectorAll("details.system")];
  const name = () => {
    toggle.textContent = systems.every((each) => each.open) ? "Collapse all" : "Expand all";
  };
  toggle.hidden = false;
  name();
  toggle.addEventListener("click", () => {
    const open = !systems.every((each) => each.open);
    systems.forEach((each) => { each.open = open; });
    name();
  });
  systems.forEach((each) => each.addEventListener("toggle", name));
}

// Paper cannot be unfolded: all but clusters of chance and further examples is printed, and folded again afterwards.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open]):not(.chance):not(.more)")];
  folded.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => folded.forEach((each) => { each.open = false; }));
