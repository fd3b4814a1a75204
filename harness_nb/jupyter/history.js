// The branch picker: the runs of a session as a tree, and a button at the end of each branch.
//
// The rows come as HTML from history_told.py, which escapes every word of a person, a model or a tool. See history.py for how
// the drawing leaves the widget and takes the place of its static twin.

const PATIENCE = 8000;
const STALE = 2000;
const GONE = ["restarting", "autorestarting", "terminating", "dead"];

const make = (tag, properties = {}, ...children) => {
  const { aria = {}, ...rest } = properties;
  const node = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria)) node.setAttribute(name === "role" ? name : `aria-${name}`, value);
  node.append(...children);
  return node;
};

export default () => {
  let model, late, wanted, drawn, seen, asked = 0;

  const title = make("span");
  const about = make("span", { className: "hnb-about" });
  const hint = make("p", { className: "hnb-hint", aria: { role: "status" } });
  const body = make("div", { className: "hnb-body" });
  const root = make("section", { className: "hnb-branches", aria: { label: "Runs of the session" } },
    make("header", {}, make("span", {}, make("strong", { textContent: "history" }), " · ", title), about), hint, body);
  root.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes Enter on a button for itself

  function ask(message) {
    asked = performance.now();
    model.send(message);
  }

  function say(text, bad = false) {
    hint.textContent = text;
    hint.classList.toggle("hnb-fault", bad);
  }

  function take(message) {
    clearTimeout(late);
    if (message.fault) return say(message.fault, true);
    title.textContent = message.title;
    about.textContent = message.about;
    if (drawn !== message.body) redraw(message.body);
    if (!message.said) return;
    say(message.said);
    wanted = message.run;
    focus();
  }

  // What a reader opened stays open.
  function redraw(html) {
    const open = new Set([...body.querySelectorAll("details[open]")].map((fold) => fold.closest("[data-run]").dataset.run));
    body.innerHTML = drawn = html;
    for (const fold of body.querySelectorAll("details")) fold.open = open.has(fold.closest("[data-run]").dataset.run);
  }

  // The button that was pressed is gone: its row takes the keyboard.
  function focus() {
    if (wanted !== undefined) body.querySelector(`.hnb-row[data-run="${wanted}"] summary`)?.focus({ preventScroll: true });
  }

  body.onclick = (event) => {
    const button = event.target.closest("button.hnb-use");
    if (!button) return;
    say("");
    ask({ ask: "use", run: +button.dataset.run });
    late = setTimeout(() => say("No answer from the kernel yet: it is at work, or was restarted. Then run %history again.", true), PATIENCE);
  };
  const refresh = () => performance.now() - asked > STALE && ask({ ask: "show" });
  root.addEventListener("pointerenter", refresh);
  root.addEventListener("focusin", (event) => root.contains(event.relatedTarget) || refresh());
  // The notebook has keys of its own: those typed here are not for it.
  root.addEventListener("keydown", (event) => event.stopPropagation());

  // Stay in the place of the static twin, which hides behind it and is drawn anew after each step.
  function settle(el) {
    const area = el.closest(".jp-OutputArea");
    if (!area) return;
    const place = [...area.children].findIndex((child) => child.contains(el));
    // A cell that is run again has a new picker in this place: two would take it from each other without end.
    const pickers = (area.hnbPickers ??= new Map());
    pickers.get(place)?.disconnect();
    seen = new MutationObserver(() => {
      const twin = area.children[place]?.querySelector(".hnb-history");
      if (!twin || twin.previousElementSibling === root) return;
      twin.style.display = "none";
      twin.before(root);
      focus();
    });
    pickers.set(place, seen);
    seen.observe(area, { childList: true, subtree: true });
    model.send({ ask: "mounted" });
  }

  // Without its kernel nothing here can answer: the twin has all that there is to read.
  function leave() {
    clearTimeout(late);
    seen?.disconnect();
    const twin = root.nextElementSibling;
    if (!twin?.matches(".hnb-history")) return;
    twin.style.display = "";
    root.remove();
  }

  return {
    initialize(context) {
      model = context.model;
      model.on("msg:custom", take);
      model.on("comm_live_update", leave);
      const kernel = model.widget_manager?.kernel;
      const told = (_, status) => GONE.includes(status) && leave();
      kernel?.statusChanged?.connect(told);
      take(model.get("start"));
      return () => (kernel?.statusChanged?.disconnect(told), leave());
    },
    render({ el }) {
      el.append(root);
      requestAnimationFrame(() => settle(el));
    },
  };
};
