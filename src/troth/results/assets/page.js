"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const number = head.classList.contains("number");
      const key = (body) => body.rows[0].cells[column].dataset.value;
      const order = (a, b) => (number ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b)));
      const bodies = [...table.tBodies].sort((a, b) => (down ? -order(a, b) : order(a, b)));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      table.append(...bodies);
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
