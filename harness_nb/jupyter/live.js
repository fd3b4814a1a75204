// The live view of a run: draws what feed.py says, touching only what is new.
//
// Text from the model and its tools becomes text nodes and nothing else: no string is ever parsed as HTML.
// What is on the page is changed in place, so that a selection, a scroll position and an opened fold stay
// as the reader left them. widget.py puts markdown.js, with its `make` and `Prose`, card.js, context.js and cut.js before this file.

export default () => {
  const run = { number: 0, prompt: "", head: {}, parts: [], since: 0, stopping: false, deaf: false };
  const views = new Set();
  let asked = false;

  function take(message, model) {
    if (message.refused) return views.forEach((view) => view.card.unsent(message.refused, message.why));
    if (message.heard) return views.forEach((view) => view.heard(message.heard, message.told));
    if (message.stopping) return void ((run.stopping = true), (run.deaf = false), draw());
    if (!message.whole && message.number !== run.number + 1) {
      if (!asked) model.send({ ask: "whole" });
      asked = true;
      return;
    }
    run.number = message.number;
    if (message.whole) {
      asked = false;
      run.prompt = message.prompt;
      message.cut = Math.min(run.parts.length, Object.keys(message.parts).length);
    }
    if (message.head) {
      run.head = message.head;
      run.since = performance.now() - message.head.elapsed * 1000;
    }
    if (message.cut !== undefined) run.parts.length = Math.min(run.parts.length, message.cut);
    for (const [index, { more, ...patch }] of Object.entries(message.parts ?? {})) {
      const part = (run.parts[index] ??= { body: "" });
      Object.assign(part, patch);
      if (more) part.body += more;
    }
    draw();
  }

  const draw = () => views.forEach((view) => view.draw(run));

  return {
    initialize({ model }) {
      take(model.get("start"), model);
      model.on("msg:custom", (message) => take(message, model));
      model.send({ ask: "whole" });
      return watch(model, (how) => {
        if (run.head.reason && run.head.reason !== "suspended") return;
        cutShort(run, how);
        draw();
        keep(model.widget_manager, model.get("start").id, run);
      });
    },
    render({ model, el }) {
      const stop = () => {
        if (run.stopping) return;
        model.send({ ask: "stop" });
        setTimeout(() => ((run.deaf = !run.stopping && !run.head.reason), draw()), 1000);
      };
      const view = new View(el, stop, (decision) => model.send(decision));
      views.add(view);
      view.draw(run);
      return () => (views.delete(view), view.close());
    },
  };
};

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Say a sentence of the harness, in which names stand between backticks: those become code, the rest text.
function tell(element, sentence) {
  if (element.sentence === sentence) return;
  element.sentence = sentence;
  element.replaceChildren(...named(sentence));
}

function named(sentence) {
  return (sentence ?? "").split(NAMED).map((piece, at) => (at % 2 ? make("code", "", piece) : piece)).filter(Boolean);
}

const NAMED = /`([^`\n]+)`/;
const unmarked = (sentence) => sentence.split(NAMED).join("");

const DEAF = "This kernel does not hear buttons while a cell runs. To stop, press ■ in the toolbar, or I twice in command mode.";

class View {
  constructor(el, stop, send) {
    this.send = send;
    this.card = new Card(send);
    this.gauge = new Gauge();
    this.state = make("span", "hnb-state");
    this.facts = make("span", "hnb-facts");
    this.stop = make("button", "hnb-stop", "Stop", make("kbd", "", "Enter"));
    this.stop.type = "button";
    this.stop.title = "Stop this run and keep what it has done";
    this.stop.onclick = stop;
    this.hint = make("p", "hnb-hint");
    this.prompt = make("div", "hnb-prompt");
    this.parts = make("div", "hnb-parts");
    this.end = make("p", "hnb-end");
    this.status = make("div", "hnb-heard");
    this.status.setAttribute("role", "status");
    const title = make("span", "hnb-title", make("span", "hnb-dot"), make("b", "", "agent"), " · ", this.state);
    const header = make("header", "", title, this.facts, this.gauge.element, this.stop);
    this.section = make("section", "hnb-run", header, this.hint, this.prompt, this.parts, this.end, this.status);
    this.section.setAttribute("aria-label", "Agent run");
    this.section.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes Enter on the button for itself
    el.append(this.section);
    this.drawn = [];
    this.clock = setInterval(() => this.run && this.tell(this.run), 1000);
  }

  draw(run) {
    this.run = run;
    say(this.prompt, run.prompt);
    this.tell(run);
    while (this.drawn.length > run.parts.length) this.drawn.pop().element.remove();
    run.parts.forEach((part, index) => {
      if (this.drawn[index] && this.drawn[index].kind !== part.kind) {
        this.drawn.splice(index).forEach((gone) => gone.element.remove());
      }
      if (!this.drawn[index]) {
        const made = new KINDS[part.kind](this.send);
        made.kind = part.kind;
        this.drawn[index] = made;
        this.parts.append(made.element);
      }
      this.drawn[index].draw(part);
    });
    const asking = run.parts.flatMap((part, index) => (part.question && !run.stopping ? [index] : []));
    this.card.draw(run.parts[asking[0]]?.question, this.drawn[asking[0]]?.element, asking.length);
  }

  tell({ head, since, stopping, deaf }) {
    const over = Boolean(head.reason);
    const doing = stopping && !over ? "stopping" : head.doing;
    const seconds = over ? "" : `${Math.max(0, Math.floor((performance.now() - since) / 1000))} s`;
    tell(this.state, doing);
    say(this.facts, [head.version, head.model, over ? "" : head.turn, seconds, over ? head.about : head.tokens].filter(Boolean).join(" · "));
    this.gauge.draw(head.gauge);
    say(this.status, `agent: ${unmarked(doing ?? "")}`);
    say(this.hint, deaf && !over ? DEAF : "");
    tell(this.end, head.ending);
    this.section.dataset.reason = head.reason;
    this.stop.hidden = over;
    this.stop.setAttribute("aria-disabled", stopping);
    if (over && head.reason !== "suspended") clearInterval(this.clock);
  }

  heard(id, told) {
    this.drawn.filter((one) => one.kind === "decision" && one.id === id).forEach((card) => card.tell(told));
  }

  close() {
    clearInterval(this.clock);
    this.card.draw(undefined);
    this.section.remove();
  }
}

class Fold {
  constructor(...boxes) {
    this.name = make("span", "hnb-name");
    this.line = make("span", "hnb-line");
    this.aside = make("span", "hnb-aside");
    this.element = make("details", "", make("summary", "", this.name, " ", this.line, " ", this.aside), ...boxes);
  }
}

class Thought extends Fold {
  constructor() {
    const box = make("pre", "");
    super(box);
    this.box = box;
    this.element.className = "hnb-thinking";
    say(this.name, "Thinking");
  }

  draw({ body, aside, busy }) {
    grow(this.box, body);
    say(this.aside, busy ? "…" : `· ${aside}`);
  }
}

class Call extends Fold {
  constructor() {
    const boxes = [make("pre", ""), make("pre", "")];
    super(make("div", "hnb-label", "Arguments"), boxes[0], make("div", "hnb-label", "Result"), boxes[1]);
    [this.given, this.result] = boxes;
    this.element.className = "hnb-call";
  }

  draw({ name, state, arguments: line, upshot, input, output, body }) {
    this.element.dataset.state = state;
    say(this.name, name);
    say(this.line, line);
    say(this.aside, upshot);
    grow(this.given, state === "writing" ? body : input || "none");
    grow(this.result, output || "none yet");
  }
}

class Note {
  element = make("p", "hnb-note");
  bar = make("progress", "hnb-bar");
  words = this.element.appendChild(make("span"));
  draw({ text, share }) {
    tell(this.words, text);
    if (share) this.element.prepend(this.bar);
    this.bar.value = Number(share);
  }
}

const KINDS = { text: Prose, thinking: Thought, call: Call, note: Note, decision: DecisionCard };

// Give a box of plain text what it lacks; while it grows, follow its end if the reader is there.
function grow(box, text) {
  const node = box.firstChild ?? box.appendChild(document.createTextNode(""));
  if (node.data === text) return;
  const grows = node.length > 0 && text.startsWith(node.data);
  const atEnd = box.clientHeight > 0 && box.scrollHeight - box.scrollTop - box.clientHeight < 8;
  if (grows) node.appendData(text.slice(node.length));
  else node.data = text;
  if (grows && atEnd) box.scrollTop = box.scrollHeight;
}
