
"use strict";

// Tables sort by a click on, or Enter in, a heading; the buttons exist only where this script runs.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
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
        const numeric = Number(first) - Number(second);
        return Number.isNaN(numeric) ? first.localeCompare(second) : numeric;
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? order(b, a) : order(a, b)));
      table.tBodies[0].append(...rows);
    });
  });
}

// On a narrow screen rows become lists, in which every value needs its heading.
for (const table of document.querySelectorAll("table")) {
  const names = [...table.tHead.rows[0].cells].map((heading) => heading.textContent.trim());
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, column) => { cell.dataset.label = names[column]; });
  }
  table.classList.add("labelled");
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
  toggle.addEventListener("click", () => {
    const open = !systems.every((each) => each.open);
    systems.forEach((each) => { each.open = open; });
    name();
  });
  systems.forEach((each) => each.addEventListener("toggle", name));
}

// Paper cannot be unfolded: all but clusters of chance is printed, and folded again afterwards.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open]):not(.chance)")];
  folded.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => folded.forEach((each) => { each.open = false; }));
