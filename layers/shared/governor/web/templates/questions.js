const form = document.querySelector(".questions");
const boxes = form ? [...form.querySelectorAll("input[data-usd]")] : [];
function count() {
  const ticked = boxes.filter((box) => box.checked);
  const usd = ticked.reduce((sum, box) => sum + Number(box.dataset.usd), 0);
  const money = usd.toLocaleString("en-US", { style: "currency", currency: "USD", maximumFractionDigits: usd < 10 ? 2 : 0 });
  const text = ticked.length ? `${ticked.length} selected, ${money} a day` : "Select the instances";
  document.getElementById("selected").textContent = text;
  for (const button of form.querySelectorAll(".several button")) button.disabled = !ticked.length;
}
if (form && boxes.length) { form.addEventListener("change", count); count(); }
