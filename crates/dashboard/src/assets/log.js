// Follows the log of a job that has not ended. Text is only ever set as text.
const list = document.getElementById("lines");
const follow = document.getElementById("follow");
if (list?.dataset.follow) {
  const source = new EventSource(list.dataset.follow);
  const template = document.getElementById("line");
  // More lines make a page slow; all of them are in the file.
  const SHOWN_MAX = 5000;
  let number = Number(list.dataset.count);
  list.scrollTop = list.scrollHeight;
  list.addEventListener("scroll", () => {
    follow.checked = list.scrollTop + list.clientHeight >= list.scrollHeight - 8;
  });
  follow.addEventListener("change", () => { if (follow.checked) list.scrollTop = list.scrollHeight; });
  const zone = document.getElementById("clock")?.dataset.zone;
  const format = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: zone });
  const written = (at) => `${format.format(at)}.${String(at.getUTCMilliseconds()).padStart(3, "0")}`;
  // As on the server: what would move text around, or cannot be seen, is shown as what it is.
  const shown = (text) => text
    .replace(/[\u0000-\u0008\u000a-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  // The log of another attempt has a page of its own.
  const showNext = () => {
    source.close();
    location.reload();
  };
  source.onmessage = (event) => {
    // A page that was made before the first attempt began takes what comes.
    const [attempt] = event.lastEventId.split("-");
    if (list.dataset.attempt === "0") list.dataset.attempt = attempt;
    else if (attempt !== list.dataset.attempt) return showNext();
    document.getElementById("nothing-printed")?.remove();
    const lines = document.createDocumentFragment();
    for (const line of JSON.parse(event.data)) {
      number += 1;
      const item = template.content.firstElementChild.cloneNode(true);
      const link = item.querySelector(".no");
      item.id = `L${number}`;
      link.textContent = String(number);
      link.href = `#L${number}`;
      const time = item.querySelector("time");
      if (line.time) {
        time.dateTime = line.time;
        time.textContent = written(new Date(line.time));
      } else time.remove();
      const stream = item.querySelector(".stream");
      if (line.stream && line.stream !== "stdout") {
        item.className = line.stream;
        stream.textContent = line.stream;
      } else stream.remove();
      item.querySelector("bdi").textContent = shown(line.text);
      lines.append(item);
    }
    list.append(lines);
    while (list.childElementCount > SHOWN_MAX) list.firstElementChild.remove();
    if (follow.checked) list.scrollTop = list.scrollHeight;
  };
  source.addEventListener("end", () => {
    source.close();
    // A retry may follow. `live.js` adds its row, and whoever follows wants its log.
    setInterval(() => {
      const attempts = document.querySelectorAll("#attempts tbody tr").length;
      if (attempts > Number(list.dataset.attempt) && follow.checked) showNext();
    }, 1000);
  });
}
