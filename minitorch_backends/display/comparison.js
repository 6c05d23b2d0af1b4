const form = document.querySelector("form"), body = document.querySelector("#calls tbody");
const lines = [...body.rows], count = document.querySelector("#shown");
function show() {
  const module = form.module.value, status = form.status.value, text = form.text.value.toLowerCase();
  let shown = 0;
  for (const line of lines) {
    const data = line.dataset;
    const under = !module || data.module === module || data.module.startsWith(module + ".");
    const visible = under && (!form.kernel.value || data.kernel === form.kernel.value)
      && (!form.direction.value || data.direction === form.direction.value)
      && (!status || data.status === status || (status === "any" && data.status !== "same"))
      && (!text || line.textContent.toLowerCase().includes(text));
    line.hidden = !visible;
    shown += visible;
  }
  count.textContent = shown + " of " + lines.length + " calls";
}
function order() {
  const worst = form.order.value === "worst";
  const sorted = worst ? [...lines].sort((x, y) => x.dataset.rank - y.dataset.rank) : lines;
  body.append(...sorted);
}
form.addEventListener("input", () => { order(); show(); });
form.addEventListener("submit", event => event.preventDefault());
show();
