// Loads the page again when a file of the templates changes. Without script, load it by hand.
const seen = document.documentElement.dataset.seen;
const json = document.getElementById("json");
const pause = () => new Promise((done) => setTimeout(done, 2000));
// A browser keeps six connections to a host. A page in the background needs none.
const visible = () => new Promise((done) => {
  if (document.hidden) document.addEventListener("visibilitychange", done, { once: true });
  else done();
});

for (;;) {
  await visible();
  const answer = await fetch(`/changes?seen=${seen}`).catch(() => null);
  if (answer?.status === 200) break;
  if (answer?.status !== 204) await pause();
}
// What was typed is not lost.
if (json !== null && json.value !== json.defaultValue) document.getElementById("changed").hidden = false;
else location.reload();
