// The inspector of a context: a slider over turns, sections, and parts that are fetched when they are opened.
//
// What is drawn here comes as HTML from inspector_html.py, which escapes every word of a model or a tool, so that the live
// view and its static twin are one drawing. What a person can press is made here. See inspector.py for how the drawing
// leaves the widget and takes the place of its twin.

const TABS = [["parts", "Parts"], ["request", "Request"], ["change", "Change"], ["what_if", "What if"], ["turns", "All turns"]];
const ORDERS = [["size", "Largest first"], ["sent", "As sent"], ["hidden", "Out of sight"]];
const PATIENCE = 8000;

const make = (tag, properties = {}, ...children) => {
  const { aria = {}, ...rest } = properties;
  const node = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria)) node.setAttribute(name === "role" ? name : `aria-${name}`, value);
  node.append(...children);
  return node;
};

export default () => {
  const now = { turn: 1, turns: 1, tab: "parts", order: "size", most: undefined, window: undefined, summary: undefined };
  let model, sent = 0, timer, late;

  const title = make("span");
  const about = make("span", { className: "hnb-about" });
  const bars = make("div", { className: "hnb-turns" });
  const slider = make("input", { type: "range", min: 1, step: 1, aria: { label: "Turn" } });
  const where = make("span", { className: "hnb-where" });
  const back = make("button", { textContent: "‹", title: "The turn before", aria: { label: "The turn before" } });
  const on = make("button", { textContent: "›", title: "The next turn", aria: { label: "The next turn" } });
  const summary = make("div");
  const tabs = TABS.map(([key, words]) => make("button", { textContent: words, aria: { role: "tab" }, onclick: () => choose(key) }));
  const order = make("select", { aria: { label: "Order of the parts" } }, ...ORDERS.map(([value, textContent]) => make("option", { value, textContent })));
  const sizes = {
    window: make("input", { type: "number", min: 1, step: 1000 }),
    summary: make("input", { type: "number", min: 1, step: 100, value: 800 }),
  };
  const trying = make("div", { className: "hnb-trying" },
    make("label", {}, "Window ", sizes.window, " tokens"), make("label", {}, "Summary ", sizes.summary, " tokens"));
  const hint = make("p", { className: "hnb-hint", aria: { role: "status" } });
  const body = make("div", { className: "hnb-body" });
  const panel = make("div", { className: "hnb-panel", aria: { role: "tabpanel" } }, make("div", { className: "hnb-choices" }, order, trying), hint, body);
  const root = make("section", { className: "hnb-inspector", aria: { label: "Context of the session" } },
    make("header", {}, make("span", {}, make("strong", { textContent: "context" }), " · ", title), about),
    make("div", { className: "hnb-inside" }, bars,
      make("div", { className: "hnb-slide" }, back, slider, on, where), summary,
      make("div", { className: "hnb-tabs", aria: { role: "tablist", label: "Sections" } }, ...tabs), panel));

  function choose(tab) {
    now.tab = tab;
    ask();
  }

  function go(turn) {
    now.turn = Math.max(1, Math.min(now.turns, turn));
    sent += 1; // an answer on its way is about another turn by now
    mark();
    clearTimeout(timer);
    timer = setTimeout(ask, 80);
  }

  function ask() {
    sent += 1;
    mark();
    model.send({ ask: "show", id: sent, ...now });
    wait();
  }

  function wait() {
    clearTimeout(late);
    late = setTimeout(() => (hint.textContent = "No answer from the kernel yet: it is at work, or was restarted. Then run %context again."), PATIENCE);
  }

  function mark() {
    slider.max = now.turns;
    slider.value = now.turn;
    slider.setAttribute("aria-valuetext", `Turn ${now.turn} of ${now.turns}`);
    where.textContent = `turn ${now.turn.toLocaleString("en")} of ${now.turns.toLocaleString("en")}`;
    back.disabled = now.turn <= 1;
    on.disabled = now.turn >= now.turns;
    for (const bar of bars.querySelectorAll("[data-first]"))
      bar.classList.toggle("hnb-current", +bar.dataset.first <= now.turn && now.turn <= +bar.dataset.last);
    TABS.forEach(([key], i) => {
      tabs[i].setAttribute("aria-selected", key === now.tab);
      tabs[i].tabIndex = key === now.tab ? 0 : -1;
    });
    panel.setAttribute("aria-label", TABS.find(([key]) => key === now.tab)[1]);
    order.hidden = now.tab !== "parts";
    trying.hidden = now.tab !== "what_if";
  }

  function take(message) {
    if (message.html !== undefined) return opened(message);
    if (message.id && message.id !== sent) return;
    clearTimeout(late);
    hint.textContent = message.fault ?? "";
    if (message.fault) return;
    Object.assign(now, { turn: message.turn, turns: message.turns, tab: message.tab });
    title.textContent = message.title;
    about.textContent = message.about;
    if (bars.dataset.turns !== String(message.turns)) bars.innerHTML = message.bars;
    bars.dataset.turns = message.turns;
    summary.innerHTML = message.summary;
    body.innerHTML = message.body;
    if (!sizes.window.value) sizes.window.value = Math.floor(message.window / 2) || 200000;
    mark();
  }

  function opened({ part, html }) {
    clearTimeout(late);
    hint.textContent = "";
    const button = body.querySelector(`.hnb-open[data-part="${part}"]`);
    if (!button || button.getAttribute("aria-expanded") === "true") return;
    button.setAttribute("aria-expanded", "true");
    const cell = make("td", { colSpan: 7 });
    cell.innerHTML = html;
    button.closest("tr").after(make("tr", { className: "hnb-opened" }, cell));
  }

  function toggle(button) {
    if (button.getAttribute("aria-expanded") === "true") {
      button.setAttribute("aria-expanded", "false");
      button.closest("tr").nextElementSibling?.remove();
    } else {
      model.send({ ask: "part", part: +button.dataset.part, turn: now.turn, order: now.order });
      wait();
    }
  }

  slider.oninput = () => go(+slider.value);
  back.onclick = () => go(now.turn - 1);
  on.onclick = () => go(now.turn + 1);
  order.onchange = () => (Object.assign(now, { order: order.value, most: undefined }), ask());
  for (const [name, input] of Object.entries(sizes))
    input.onchange = () => (+input.value >= 1 ? ((now[name] = +input.value), ask()) : (hint.textContent = "Give a number of tokens above 0."));
  bars.onclick = (event) => {
    const bar = event.target.closest("[data-turn]");
    if (bar) go(+bar.dataset.turn);
  };
  body.onclick = (event) => {
    const button = event.target.closest("button");
    if (button?.matches(".hnb-open")) toggle(button);
    if (button?.matches(".hnb-more")) (now.most = (now.most ?? 50) + 50), ask();
  };
  tabs.forEach((tab, i) => (tab.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (i + step + TABS.length) % TABS.length;
    choose(TABS[next][0]);
    tabs[next].focus();
    event.preventDefault();
  }));
  // The notebook has keys of its own: those typed here are not for it.
  root.addEventListener("keydown", (event) => event.stopPropagation());

  // Take the place of the static twin once that stands where the widget was.
  function settle(el) {
    const area = el.closest(".jp-OutputArea");
    if (!area) return;
    const place = [...area.children].findIndex((child) => child.contains(el));
    const seen = new MutationObserver(() => {
      const twin = area.children[place]?.querySelector(".hnb-context");
      if (!twin || root.contains(twin)) return;
      seen.disconnect();
      twin.style.display = "none";
      twin.before(root);
    });
    seen.observe(area, { childList: true, subtree: true });
    model.send({ ask: "mounted" });
  }

  return {
    initialize(context) {
      model = context.model;
      model.on("msg:custom", take);
      take(model.get("start"));
      return () => {
        const twin = root.nextElementSibling;
        if (twin?.matches(".hnb-context")) twin.style.display = "";
        root.remove();
      };
    },
    render({ el }) {
      el.append(root);
      requestAnimationFrame(() => settle(el));
    },
  };
};
