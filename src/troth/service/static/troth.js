"use strict";
/* What pages do better with a script: local times, copying, dropping files, asking before what cannot be undone. */
(() => {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "short" });

  function localTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
      const moment = new Date(time.dateTime);
      if (!Number.isNaN(moment.valueOf())) time.title = `${format.format(moment)} where you are`;
    }
  }

  function localDeadline(input) {
    const hint = document.getElementById(input.getAttribute("aria-describedby"));
    const moment = new Date(`${input.value}Z`);
    if (hint) hint.textContent = input.value && !Number.isNaN(moment.valueOf()) ? `${format.format(moment)} where you are` : "";
  }

  function copying(button) {
    const field = button.parentElement.querySelector("input");
    button.hidden = false;
    button.addEventListener("click", async () => {
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
      } catch {
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  function dropping(zone) {
    const input = zone.querySelector("input[type=file]");
    const shown = zone.querySelector("[data-chosen]");
    const tell = () => {
      const file = input.files[0];
      if (file) shown.textContent = `${file.name}, ${Math.max(1, Math.round(file.size / 1024)).toLocaleString()} kB`;
    };
    input.addEventListener("change", tell);
    for (const name of ["dragenter", "dragover"]) {
      zone.addEventListener(name, (event) => { event.preventDefault(); zone.classList.add("over"); });
    }
    for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files.length) {
        input.files = event.dataTransfer.files;
        tell();
      }
    });
  }

  document.documentElement.classList.add("scripted");
  localTimes(document);
  for (const input of document.querySelectorAll("input[data-utc]")) input.addEventListener("input", () => localDeadline(input));
  for (const button of document.querySelectorAll("[data-copy]")) copying(button);
  for (const field of document.querySelectorAll("input[data-select]")) field.addEventListener("focus", () => field.select());
  for (const zone of document.querySelectorAll("[data-drop]")) dropping(zone);
  for (const button of document.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  }
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) {
      event.preventDefault();
      return;
    }
    const button = form.querySelector("button:not([type=button])");
    if (form.dataset.busy && button) {
      button.textContent = form.dataset.busy;
      button.classList.add("busy");
    }
  });
  new MutationObserver((changes) => {
    for (const change of changes) {
      for (const node of change.addedNodes) if (node.nodeType === 1) localTimes(node.parentElement || node);
    }
  }).observe(document.body, { childList: true, subtree: true });
})();
