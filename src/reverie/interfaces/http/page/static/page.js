// Everything on the page works without this file.

// An element with data-key="a" is pressed by the key a, in the card that has the focus if there is one; j and k go to
// the next and the previous card.
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, textarea, select, [contenteditable]");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const card = document.activeElement.closest("[data-card]");
  const wanted = `[data-key="${CSS.escape(event.key)}"]`;
  const cards = [...document.querySelectorAll("[data-card]")];
  const step = { j: 1, k: -1 }[event.key];
  const target = step && cards.length
    ? cards[Math.min(Math.max(cards.indexOf(card) + step, 0), cards.length - 1)]
    : card?.querySelector(wanted) ?? document.querySelector(wanted);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input, textarea, select, [data-card]")) target.focus();
  else target.click();
});

// A button with data-check="ids" checks all boxes of that name in its form, or none if all are.
for (const button of document.querySelectorAll("[data-check]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const boxes = [...button.form.querySelectorAll(`input[name="${CSS.escape(button.dataset.check)}"]`)];
    const checked = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = checked;
  });
}

// An element with data-live is drawn again after each change of the memory, unless it is being used.
const live = document.querySelector("[data-live]");
if (live) {
  let source, timer;
  const refresh = async () => {
    timer = undefined;
    const answer = await fetch(location.href).catch(() => undefined);
    if (!answer || !answer.ok || answer.redirected) return;
    const view = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
    if (view && !live.contains(document.activeElement)) live.replaceChildren(...view.childNodes);
  };
  const follow = () => {
    if (source) source.close();
    source = undefined;
    if (document.hidden) return;
    source = new EventSource("/events");
    source.addEventListener("message", () => { timer ??= setTimeout(refresh, 500); });
  };
  document.addEventListener("visibilitychange", () => {
    follow();
    if (!document.hidden) refresh();
  });
  addEventListener("pagehide", () => source && source.close());
  follow();
}
