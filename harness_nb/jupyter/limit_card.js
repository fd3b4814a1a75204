// The card below a run that a limit ended. A click allows what it says, once; see limit_card.py for how it leaves the widget.
//
// It never takes the focus: no key that is meant for a cell may spend money.

const make = (tag, name, ...children) => {
  const node = document.createElement(tag);
  node.className = name;
  node.append(...children);
  return node;
};

const GONE = ["restarting", "autorestarting", "terminating", "dead"];
const SILENT = 3000; // milliseconds after which the person may try again
const UNHEARD = "The kernel has not answered: it is at work, or was restarted. In a cell, %resume does the same.";

export default () => {
  let send;
  const act = make("button", "hnb-go");
  const title = make("p", "hnb-ask-title");
  const why = make("p", "hnb-ask-why");
  const fault = make("p", "hnb-ask-fault");
  fault.setAttribute("role", "status");
  const card = make("div", "hnb-ask", title, why, fault, make("div", "hnb-buttons", act));
  const root = make("section", "hnb-run hnb-limit", card);
  root.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes Enter on the button for itself
  root.addEventListener("keydown", (event) => event.stopPropagation());
  act.type = "button";
  let timer;

  const again = (words) => {
    clearTimeout(timer);
    delete card.dataset.sent;
    act.removeAttribute("aria-disabled");
    fault.textContent = words;
  };

  act.onclick = () => {
    if (card.dataset.sent) return;
    card.dataset.sent = "true";
    act.setAttribute("aria-disabled", "true");
    fault.textContent = "";
    send({ ask: "decide", answer: "more" });
    timer = setTimeout(() => again(UNHEARD), SILENT);
  };

  // Move to the empty output that takes the widget's place, once that stands there.
  function settle(el) {
    const area = el.closest(".jp-OutputArea");
    if (!area) return;
    const index = [...area.children].findIndex((child) => child.contains(el));
    const seen = new MutationObserver(() => {
      const place = area.children[index]?.querySelector(".hnb-limit-place");
      if (!place || place.contains(root)) return;
      seen.disconnect();
      place.append(root);
    });
    seen.observe(area, { childList: true, subtree: true });
    send({ ask: "mounted" });
  }

  return {
    initialize({ model }) {
      const offer = model.get("offer");
      send = (message) => model.send({ question: offer.id, ...message });
      title.textContent = offer.title;
      why.textContent = offer.why;
      act.textContent = offer.act;
      root.setAttribute("aria-label", offer.title);
      model.on("msg:custom", ({ refused }) => again(refused));
      const gone = () => root.remove(); // with the kernel; the record above says what to type
      const kernel = model.widget_manager?.kernel;
      kernel?.statusChanged?.connect((_, status) => GONE.includes(status) && gone());
      model.on("comm_live_update", gone);
      return () => (clearTimeout(timer), gone());
    },
    render({ el }) {
      el.append(root);
      requestAnimationFrame(() => settle(el));
    },
  };
};
