// The inbox page. What comes from a mail goes into the page as text, or into the sandboxed frame; never as markup.
const at = (id) => document.getElementById(id);
const json = async (path) => {
  const answer = await fetch(path);
  return answer.ok ? answer.json() : null;
};
const element = (name, text, kind) => {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const time = (id) => new Date(id).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

let mails = [];
let shown = null;
let tab = "html";

const chosen = () => mails.find((mail) => String(mail.id) === location.hash.slice(1));

function line(mail) {
  const row = document.createElement("a");
  row.href = `#${mail.id}`;
  if (mail === chosen()) row.setAttribute("aria-current", "true");
  row.append(
    element("span", mail.to, "to"),
    element("time", time(mail.id)),
    element("span", mail.subject || "(no subject)", "subject"),
  );
  return row;
}

async function show() {
  const mail = chosen();
  at("list").replaceChildren(...mails.map(line));
  at("list").hidden = mails.length === 0;
  at("empty").hidden = mails.length > 0;
  at("unselected").hidden = mails.length === 0 || Boolean(mail);
  at("mail").hidden = !mail;
  at("main").classList.toggle("reading", Boolean(mail));
  document.title = mails.length ? `(${mails.length}) Tidings inbox` : "Tidings inbox";
  if (!mail || shown === mail.id) return;
  shown = mail.id;
  const content = await json(`/api/mails/${mail.id}`);
  if (content && shown === mail.id) fill(mail, content);
}

function fill(mail, content) {
  at("subject").textContent = mail.subject || "(no subject)";
  const facts = [["From", mail.from], ["To", mail.to], ["Received", new Date(mail.id).toLocaleString()]];
  if (mail.digest_id) facts.push(["Digest", mail.digest_id]);
  if (mail.events !== null) facts.push(["Events", mail.events]);
  if (content.attachments.length) facts.push(["Attached", content.attachments.join(", ")]);
  at("people").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  at("text").textContent = content.text ?? "";
  at("html").src = content.has_html ? `/api/mails/${mail.id}/html` : "about:blank";
  at("raw").href = `/api/mails/${mail.id}/raw`;
  at("headers").querySelector("tbody").replaceChildren(...content.headers.map(([name, value]) => {
    const row = document.createElement("tr");
    row.append(element("td", name), element("td", value));
    return row;
  }));
  choose({ html: content.has_html, text: content.text !== null, headers: true });
}

/** Opens the tab that was open before, or the first one that this mail has. */
function choose(has) {
  const open = has[tab] ? tab : Object.keys(has).find((name) => has[name]);
  for (const button of document.querySelectorAll("[data-tab]")) {
    const name = button.dataset.tab;
    button.disabled = !has[name];
    button.setAttribute("aria-selected", String(name === open));
    at(name).hidden = name !== open;
    button.onclick = () => { tab = name; choose(has); };
  }
}

async function refresh() {
  mails = (await json("/api/mails")) ?? mails;
  await show();
}

const live = at("live");
const say = (kind, text) => { live.className = `live ${kind}`; live.textContent = text; };
const arrivals = new EventSource("/api/arrivals");
arrivals.onopen = () => { say("on", "live"); refresh(); };
arrivals.onmessage = refresh;
arrivals.onerror = () => say("off", "not connected; is tidings dev running?");
addEventListener("hashchange", show);

const about = await json("/api/about");
at("smtp").textContent = about.smtp;
at("temporal").href = about.temporal_ui;
await refresh();
