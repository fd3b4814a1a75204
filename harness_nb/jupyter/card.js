// The card on which a person decides about a call: it shows all of it, and sends a decision that names exactly that.
//
// A decision carries the question's id and the seal of the arguments on the card, so that one that comes
// late, twice or from another window counts for nothing. Keys work only while the card has the focus; it
// takes the focus once the keyboard has been quiet, and its keys are dead for a moment after that, so
// that no letter meant for a cell decides. Text becomes text nodes and nothing else.

const QUIET = 1000; // milliseconds without a key before the card takes the focus
const DEAD = 400; // milliseconds after that in which its keys do nothing

if (!window.hnbKeyboard) {
  const keyboard = (window.hnbKeyboard = { last: -QUIET });
  document.addEventListener("keydown", () => (keyboard.last = performance.now()), true);
}

function button(label, key, act) {
  const shown = make("kbd", "", key);
  const made = make("button", "", ...named(label), shown);
  shown.setAttribute("aria-hidden", "true");
  made.setAttribute("aria-keyshortcuts", key);
  made.type = "button";
  made.onclick = act;
  return made;
}

class Card {
  constructor(send) {
    this.send = send;
    this.key = "";
    this.element = make("div", "hnb-ask");
    this.element.tabIndex = -1;
    this.element.setAttribute("role", "group");
    this.element.onkeydown = (event) => this.pressed(event);
  }

  // Show the question, or nothing; leave a question that is on the card already as the reader has it.
  draw(question, after, count) {
    const key = question ? `${question.id} ${question.seal}` : "";
    if (key !== this.key) {
      const hadFocus = this.element.contains(document.activeElement);
      this.key = key;
      clearTimeout(this.waiting);
      if (question) {
        this.fill(question);
        after.after(this.element);
        this.takeFocus(hadFocus);
      } else {
        this.element.remove();
        if (hadFocus) this.back?.focus?.();
      }
    }
    if (question) say(this.count, count > 1 ? `1 of ${count} questions` : "");
  }

  fill(question) {
    const [before, name, after] = question.title;
    const title = make("p", "hnb-ask-title", before, make("code", "", name), after);
    for (const effect of question.effects) title.append(" ", make("span", "hnb-badge", effect));
    this.count = make("span", "hnb-ask-count");
    title.append(" ", this.count);
    this.fault = make("p", "hnb-ask-fault");
    this.below = make("div", "hnb-ask-below");
    const given = make("details", "hnb-given", make("summary", "", "All arguments"), make("pre", "", question.arguments));
    given.open = !question.preview;
    const shown = question.preview ? [preview(question.shows, question.preview)] : [];
    const why = make("p", "hnb-ask-why", ...named(question.why));
    this.element.replaceChildren(title, why, ...shown, ...(question.answers ? [] : [given]), this.fault, this.below);
    this.element.setAttribute("aria-label", question.title.join(""));
    this.question = question;
    this.sent = false;
    delete this.element.dataset.sent;
    this.choose();
  }

  choose() {
    const { scopes, answers } = this.question;
    if (answers) return this.yesOrNo(...answers);
    const once = button("Allow once", "a", () => this.decide({ answer: "allow" }));
    once.className = "hnb-go";
    const row = make("div", "hnb-buttons", once);
    this.acts = { a: once, e: button("Edit…", "e", () => this.edit()), d: button("Deny…", "d", () => this.deny()) };
    row.append(this.acts.e, this.acts.d);
    if (scopes.length) {
      const label = scopes.length > 1 ? "Allow for this session:" : `Allow for this session: ${scopes[0]}`;
      this.acts.s = button(label, "s", () => this.decide({ answer: "session", scope: this.scope?.value ?? scopes[0] }));
      const wide = row.appendChild(make("span", "hnb-session", this.acts.s));
      this.scope = null;
      if (scopes.length > 1) {
        this.scope = make("select", "", ...scopes.map((scope) => choice(scope)));
        this.scope.setAttribute("aria-label", "What is allowed for this session");
        wide.append(this.scope);
      }
    }
    tell(this.fault, "");
    this.below.replaceChildren(row);
  }

  // A question that is not about a call: nothing to edit, no reason to give.
  yesOrNo(yes, no) {
    const go = button(yes, "a", () => this.decide({ answer: "allow" }));
    go.className = "hnb-go";
    this.acts = { a: go, d: button(no, "d", () => this.decide({ answer: "deny" })) };
    tell(this.fault, "");
    this.below.replaceChildren(make("div", "hnb-buttons", go, this.acts.d));
  }

  edit() {
    if (this.sent) return;
    const box = make("textarea", "");
    box.value = this.question.editable;
    box.rows = Math.min(16, box.value.split("\n").length + 1);
    box.spellcheck = false;
    box.setAttribute("aria-label", "The arguments, as JSON");
    const use = () => {
      try {
        const given = JSON.parse(box.value);
        if (given === null || typeof given !== "object" || Array.isArray(given)) throw new Error("it is no object in { }");
      } catch (fault) {
        return tell(this.fault, `This can't be read as JSON: ${fault.message}. Nothing was sent.`);
      }
      this.decide({ answer: "edit", arguments: box.value });
    };
    this.panel(box, button("Use these arguments", "Ctrl+Enter", use), use);
  }

  deny() {
    if (this.sent) return;
    const box = make("input", "");
    box.placeholder = "Why? The model is told. May be left empty.";
    box.setAttribute("aria-label", "Why you deny it, for the model; may be left empty");
    const use = () => this.decide({ answer: "deny", reason: box.value });
    this.panel(box, button("Deny", "Enter", use), use);
  }

  panel(box, go, use) {
    go.className = "hnb-go";
    const back = button("Back", "Esc", () => (this.choose(), this.element.focus()));
    this.acts = {};
    box.onkeydown = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey || box.tagName === "INPUT")) event.preventDefault(), use();
    };
    this.escape = () => back.onclick();
    this.below.replaceChildren(box, make("div", "hnb-buttons", go, back));
    box.focus();
  }

  pressed(event) {
    event.stopPropagation();
    const { key, target } = event;
    if (key === "Escape" && this.below.querySelector("textarea, input")) return void this.escape();
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || performance.now() < this.armed) return;
    const act = this.acts[key.toLowerCase()];
    if (act) event.preventDefault(), act.onclick();
  }

  decide(answer) {
    if (this.sent) return;
    this.sent = true;
    this.element.dataset.sent = "true";
    tell(this.fault, "");
    this.send({ ask: "decide", question: this.question.id, seal: this.question.seal, ...answer });
    setTimeout(() => this.sent && this.fault.isConnected && this.unsent(this.question.id, ""), 3000);
  }

  // The kernel did not take the decision, and says why; or it is silent, and the person may try again.
  unsent(id, why) {
    if (id !== this.question?.id) return;
    this.sent = false;
    delete this.element.dataset.sent;
    tell(this.fault, why);
  }

  takeFocus(atOnce) {
    const quiet = performance.now() - window.hnbKeyboard.last;
    if (!atOnce && quiet < QUIET) return void (this.waiting = setTimeout(() => this.takeFocus(false), QUIET - quiet));
    if (!this.element.contains(document.activeElement) && !atOnce) this.back = document.activeElement;
    this.armed = performance.now() + (atOnce ? DEAD / 2 : DEAD);
    this.element.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }
}

function choice(scope) {
  const made = make("option", "", unmarked(scope)); // an option holds text alone
  made.value = scope;
  return made;
}

function preview(kind, text) {
  if (kind !== "diff") return make("pre", "hnb-preview", ...(kind === "code" ? coloured(text) : [text]));
  const lines = text.replace(/\n$/, "").split("\n");
  const drawn = lines.map((line) => make("div", DIFF.find(([sign]) => line.startsWith(sign))?.[1] ?? "", line || " "));
  return make("div", "hnb-preview hnb-diff", ...drawn);
}

const DIFF = [["+++", "hnb-where"], ["---", "hnb-where"], ["@@", "hnb-where"], ["+", "hnb-added"], ["-", "hnb-removed"]];

// Python with its comments, strings and words told apart; where the guess is wrong, only a colour is.
const PYTHON = /(#[^\n]*)|("""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|True|False|None)\b/g;

function coloured(text) {
  const pieces = [];
  let done = 0;
  for (const found of text.matchAll(PYTHON)) {
    const kind = found[1] ? "hnb-comment" : found[2] ? "hnb-string" : "hnb-word";
    pieces.push(text.slice(done, found.index), make("span", kind, found[0]));
    done = found.index + found[0].length;
  }
  return [...pieces, text.slice(done)];
}
