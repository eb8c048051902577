// Keys of the page: an element with data-key="a" is pressed by the key a. Everything works without this file.
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, textarea, select, [contenteditable]");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input, textarea, select")) target.focus();
  else target.click();
});
