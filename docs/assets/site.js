// Of a session in a terminal, the copy button takes the commands, without prompts and output.
document.addEventListener("click", (event) => {
  const button = event.target.closest(".md-clipboard, .md-code__button[data-md-type=copy]");
  const code = button && button.closest(".language-console")?.querySelector("code");
  if (!code || !navigator.clipboard) return;
  const lines = code.textContent.split("\n");
  const taken = lines.filter((line, i) => line.startsWith("$ ") || /\\$/.test(lines[i - 1] || ""));
  navigator.clipboard.writeText(taken.map((line) => line.replace(/^\$ /, "")).join("\n") + "\n");
  event.stopImmediatePropagation();
}, true);
