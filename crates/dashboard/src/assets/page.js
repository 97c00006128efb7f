// Keyboard, copying, the browser's time zone, and previews of forms. Every page works without it.
const policy = window.trustedTypes?.createPolicy("punctual-page", { createHTML: (text) => text });
const parsed = (text) => new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");

// The clipboard needs a secure context, which plain HTTP is not.
async function copy(text) {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await copy(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// What a form would do, while it is written.
for (const form of document.querySelectorAll("form[data-preview]")) {
  const place = document.getElementById("preview");
  let turn = 0;
  let timer = 0;
  const show = async () => {
    const mine = ++turn;
    const body = new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(form.dataset.preview, { method: "POST", body, headers: { Accept: "text/html" } });
      const fresh = parsed(await answer.text()).getElementById("preview");
      if (mine === turn && fresh) place.replaceChildren(...fresh.childNodes);
    } catch { /* The next change asks again. */ }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 250);
  });
}
for (const button of document.querySelectorAll("button[data-script-hides]")) button.hidden = true;

// Without a choice, times are shown in the zone of the browser.
const root = document.documentElement;
if (root.dataset.zoneChosen === "no") {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && zone !== root.dataset.zone) {
    const body = new URLSearchParams({ zone });
    fetch(root.dataset.preferences, { method: "POST", body, headers: { Accept: "text/html" }, redirect: "manual" })
      .then(() => { if (!document.querySelector("form[data-preview]")) location.reload(); });
  }
}

// On a narrow screen the navigation is a row that scrolls.
document.querySelector(".frame > nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Menus close when somebody clicks elsewhere, or with Escape.
const closeMenus = (except) => {
  for (const menu of document.querySelectorAll("details.menu[open], details.confirm[open]")) {
    if (!except || !menu.contains(except)) menu.open = false;
  }
};
document.addEventListener("click", (event) => closeMenus(event.target));

const help = document.getElementById("keys");
document.getElementById("show-keys")?.addEventListener("click", () => help.showModal());
const places = { o: "overview", j: "jobs", t: "tasks", s: "schedules", w: "workflows", q: "queues", k: "workers" };
let isGoing = false;
let chosen = -1;
function choose(step) {
  const links = [...document.querySelectorAll("main table.list tbody tr a.main")];
  if (!links.length) return;
  chosen = Math.min(Math.max(chosen + step, 0), links.length - 1);
  links[chosen].focus();
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return closeMenus();
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isGoing) {
    isGoing = false;
    const link = document.querySelector(`nav a[data-place="${places[event.key] ?? ""}"]`);
    if (link) link.click();
    return;
  }
  if (event.key === "g") isGoing = true;
  else if (event.key === "/") { event.preventDefault(); document.querySelector(".find input")?.focus(); }
  else if (event.key === "?") help?.showModal();
  else if (event.key === "j") choose(1);
  else if (event.key === "k") choose(-1);
});
