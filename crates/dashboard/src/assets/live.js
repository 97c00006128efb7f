// Renews what a page shows when the server says that something changed, and tells how long ago each time is. Every page works
// without it.
const policy = window.trustedTypes?.createPolicy("punctual-live", { createHTML: (text) => text });
const parsed = (text) => new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");
const main = document.querySelector("main");
const status = document.getElementById("live");
const clock = document.getElementById("clock");
// Not more often: a busy server has changes all the time.
const RENEW_MIN_MS = 1000;
// Queues, workers and servers change without a hint.
const RENEW_MAX_MS = 10_000;

function relative(seconds) {
  const size = Math.abs(seconds);
  const parts = [[60, 1, "s"], [3600, 60, "min"], [172_800, 3600, "h"], [Infinity, 86_400, "d"]];
  const [, unit, name] = parts.find(([limit]) => size < limit);
  const text = `${Math.floor(size / unit)} ${name}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

// The server's clock counts: this machine's may be wrong.
const skew = clock ? Date.now() - Date.parse(clock.dateTime) : 0;
function tellTimes() {
  const now = Date.now() - skew;
  if (clock) {
    clock.dateTime = new Date(now).toISOString();
    clock.textContent = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: clock.dataset.zone }).format(now);
  }
  for (const ago of document.querySelectorAll("main .ago[data-at]")) {
    const text = relative((now - Date.parse(ago.dataset.at)) / 1000);
    if (ago.textContent !== text) ago.textContent = text;
  }
}

// What somebody points at, types into, marks or has opened stays as it is.
function isInUse(element) {
  if (element.matches(":hover, :focus-within") || element.querySelector("details[open], dialog[open]")) return true;
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(element, true);
}

// Rows keep their places while somebody is at the table; only what stands in the others is renewed.
function renewRows(old, fresh) {
  for (const row of old.querySelectorAll("tr[id]")) {
    const next = fresh.querySelector(`#${CSS.escape(row.id)}`);
    if (next && !isInUse(row) && row.innerHTML !== next.innerHTML) row.replaceWith(next);
  }
}

function renew(page) {
  for (const fresh of page.querySelectorAll("main [data-part]")) {
    const old = document.getElementById(fresh.id);
    if (!old) {
      // A part that the page did not have, such as the first attempt of a job, comes after what it follows.
      const before = fresh.previousElementSibling?.id;
      if (before) document.getElementById(before)?.after(fresh);
      continue;
    }
    const text = fresh.innerHTML;
    if (old.dataset.was === text) continue;
    if (isInUse(old)) {
      renewRows(old, fresh);
      continue;
    }
    const scrolled = old.querySelector(".scroll")?.scrollLeft;
    fresh.dataset.was = text;
    old.replaceWith(fresh);
    if (scrolled) fresh.querySelector(".scroll").scrollLeft = scrolled;
  }
  tellTimes();
}

let failures = 0;
let last = 0;
let timer = 0;
let busy = false;
function say(text, kind) {
  status.textContent = text;
  status.className = `live ${kind}`;
}
async function look() {
  if (document.hidden || busy) return;
  busy = true;
  last = Date.now();
  try {
    const headers = { Accept: "text/html", "Punctual-Renewal": "1" };
    const answer = await fetch(location.href, { headers, redirect: "error" });
    if (!answer.ok) throw new Error(String(answer.status));
    renew(parsed(await answer.text()));
    failures = 0;
    say("Live", "on");
  } catch {
    failures += 1;
    say("No answer; shown as it was", "off");
  }
  busy = false;
}
function soon() {
  const wait = failures ? Math.min(RENEW_MIN_MS * 2 ** failures, RENEW_MAX_MS) : RENEW_MIN_MS - (Date.now() - last);
  if (!timer) timer = setTimeout(() => { timer = 0; look(); }, Math.max(wait, 0));
}

let source = null;
function listen() {
  // A browser opens few connections to a server: pages that nobody sees take none.
  if (document.hidden) {
    source?.close();
    source = null;
    return;
  }
  if (source) return;
  source = new EventSource(main.dataset.live);
  source.addEventListener("change", soon);
  source.addEventListener("missed", soon);
  source.onopen = () => say("Live", "on");
  source.onerror = () => soon();
}

tellTimes();
setInterval(tellTimes, 1000);
if (main.dataset.live && status) {
  listen();
  document.addEventListener("visibilitychange", () => { listen(); soon(); });
  setInterval(() => { if (Date.now() - last > RENEW_MAX_MS) soon(); }, 2000);
}
