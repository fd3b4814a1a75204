// The gauge in the header, and the card of a decision about the context with its Undo and Pin buttons.
//
// A click names the decision or the message by its id, so that one that comes late, twice or from another window counts
// for nothing. The buttons are there while the run goes on; afterwards the same is done by the command that the card names.

class Gauge {
  constructor() {
    this.words = make("span", "hnb-full");
    this.bar = make("span", "hnb-meter");
    this.element = make("span", "hnb-gauge", "context ", this.bar, " ", this.words);
    this.element.setAttribute("role", "img");
    this.element.hidden = true;
  }

  draw(gauge) {
    this.element.hidden = !gauge;
    if (!gauge) return;
    say(this.words, gauge.words);
    this.element.title = gauge.told;
    this.element.setAttribute("aria-label", gauge.told);
    this.element.dataset.state = gauge.state;
    this.bar.hidden = !gauge.bar.length;
    fillBar(this.bar, gauge.bar);
  }
}

// Make the bar's pieces as wide as told, each [group, percent], changing those that are there.
function fillBar(bar, pieces) {
  pieces.forEach(([group, width], index) => {
    const piece = bar.children[index] ?? bar.appendChild(make("i", ""));
    piece.className = `hnb-group-${group}`;
    piece.style.width = `${width}%`;
  });
  while (bar.children.length > pieces.length) bar.lastChild.remove();
}

class DecisionCard {
  constructor(send) {
    this.send = send;
    this.headline = make("b", "");
    this.numbers = make("span", "");
    this.keeps = make("span", "");
    this.bars = make("div", "hnb-bars");
    this.legend = make("div", "hnb-legend");
    this.rows = make("tbody", "");
    this.rest = make("p", "hnb-rest");
    const head = make("tr", "", ...HEAD.map((name) => heading(name)));
    const table = make("div", "hnb-fates", make("table", "", make("thead", "", head), this.rows), this.rest);
    this.table = make("details", "", make("summary", "", "What happened to each message"), table);
    this.words = make("pre", "");
    this.summary = make("details", "", make("summary", "", "The summary that the model reads instead"), this.words);
    this.undo = act("Undo", "Take this decision back: the model sees the messages as before", () => this.ask({ act: "undo" }));
    this.pin = act("Pin…", "Choose a message to keep word for word from now on", () => this.choose());
    this.pin.setAttribute("aria-expanded", "false");
    this.buttons = make("span", "hnb-acts", this.undo, this.pin);
    this.commands = make("span", "hnb-commands");
    this.told = make("p", "hnb-told");
    this.told.setAttribute("role", "status");
    const line = make("p", "", this.headline, " ", this.numbers, " ", this.keeps);
    const foot = make("div", "hnb-foot", this.buttons, this.commands);
    this.element = make("div", "hnb-decision", line, this.bars, this.legend, this.table, this.summary, foot, this.told);
    this.element.setAttribute("role", "group");
  }

  draw(part) {
    if (this.drawn === JSON.stringify(part)) return;
    this.drawn = JSON.stringify(part);
    this.id = part.id;
    const taken = part.state === "taken";
    tell(this.headline, part.headline);
    say(this.numbers, part.numbers);
    tell(this.keeps, taken ? part.keeps : "");
    this.element.setAttribute("aria-label", "Decision about the context");
    this.element.dataset.state = part.state;
    const bars = part.state === "declined" ? [] : part.bars;
    this.bars.replaceChildren(...bars.map(bar));
    this.legend.replaceChildren(...(bars.length ? part.legend : []).map(([group, words]) => make("span", "", make("i", `hnb-group-${group}`), words)));
    this.drawRows(part.rows);
    say(this.rest, part.rest);
    this.table.hidden = !part.rows.length;
    say(this.words, part.summary);
    this.summary.hidden = !part.summary;
    this.buttons.hidden = !taken;
    tell(this.commands, part.commands);
    if (!taken) this.tell("");
  }

  drawRows(rows) {
    const text = JSON.stringify(rows);
    if (this.listed === text) return;
    this.listed = text;
    this.rows.replaceChildren(...rows.map(([numbers, what, fate, before, after, id]) => {
      const cells = [numbers, what, fate, before, after].map((word) => make("td", "", word));
      const pin = act("Pin", `Keep message ${numbers} word for word from now on`, () => this.ask({ act: "pin", message: id }));
      return make("tr", "", ...cells, make("td", "hnb-pin", ...(id ? [pin] : [])));
    }));
  }

  choose() {
    const open = this.element.dataset.choosing !== "true";
    this.element.dataset.choosing = open;
    this.pin.setAttribute("aria-expanded", open);
    if (!open) return;
    this.table.open = true;
    this.rows.querySelector("button")?.focus();
  }

  ask(what) {
    this.send({ ask: "context", decision: this.id, ...what });
    this.tell("Sent.");
    const sent = (this.sent = {});
    setTimeout(() => this.sent === sent && this.told.textContent === "Sent." && this.tell(UNHEARD), 3000);
  }

  tell(words) {
    tell(this.told, words);
  }
}

const HEAD = ["message", "what", "now", "tokens before", "after", ""];
const UNHEARD = "The kernel hears no buttons while this cell runs: use the command when it is over.";

function heading(name) {
  const cell = make(name ? "th" : "td", "", name);
  if (name) cell.scope = "col";
  return cell;
}

function act(label, title, does) {
  const made = make("button", "", label);
  made.type = "button";
  made.title = title;
  if (label === "Pin") made.setAttribute("aria-label", title);
  made.onclick = does;
  return made;
}

function bar({ name, amount, told, bar: pieces }) {
  const drawn = make("span", "hnb-meter");
  fillBar(drawn, pieces);
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", `${name}: ${told}`);
  drawn.title = told;
  return make("div", "", make("span", "", name), drawn, make("span", "", amount));
}
