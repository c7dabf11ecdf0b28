
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

// Paper cannot be unfolded: all of it is printed, and folded again afterwards.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((each) => { each.open = true; });
});
addEventListener("afterprint", () => folded.forEach((each) => { each.open = false; }));
