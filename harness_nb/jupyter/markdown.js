// Markdown as elements while it streams: the same subset as markdown.py, which writes the record.
//
// Finished blocks are left alone and the last one is patched in place. Nothing is ever parsed as HTML, and
// no text takes more than its length to read: what opened and can't close is remembered, not looked for again.

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

class Prose {
  element = make("div", "hnb-text");
  finished = 0; // characters whose blocks will not change any more
  firm = 0; // nodes that those blocks are
  drawn = "";

  draw({ body }) {
    if (body === this.drawn) return;
    if (!body.startsWith(this.drawn)) [this.finished, this.firm] = [0, 0];
    this.drawn = body;
    const rest = body.slice(this.finished);
    const split = lastBoundary(rest);
    const fresh = document.createDocumentFragment();
    blocks(rest.slice(0, split).split("\n"), fresh);
    const firm = fresh.childNodes.length;
    blocks(rest.slice(split).split("\n"), fresh);
    patch(this.element, [...fresh.childNodes], this.firm);
    this.finished += split;
    this.firm += firm;
  }
}

// Make the children of `parent`, from the given one on, look like `wanted`, keeping what is the same.
function patch(parent, wanted, from = 0) {
  wanted.forEach((want, index) => {
    const have = parent.childNodes[from + index];
    if (!have) parent.append(want);
    else if (have.nodeName !== want.nodeName) have.replaceWith(want);
    else if (have.nodeType === Node.TEXT_NODE) {
      if (want.data.startsWith(have.data)) have.appendData(want.data.slice(have.length));
      else have.data = want.data;
    } else {
      for (const name of ["href", "start", "style"]) {
        if (want.getAttribute(name) !== have.getAttribute(name)) have.setAttribute(name, want.getAttribute(name) ?? "");
      }
      patch(have, [...want.childNodes]);
    }
  });
  while (parent.childNodes.length > from + wanted.length) parent.lastChild.remove();
}

// Where the last block starts that may still change: after a blank line, outside a fence, not in a list or quote.
function lastBoundary(text) {
  let at = 0, found = 0, fence = "", blank = false;
  for (const line of text.split("\n")) {
    const mark = line.match(/^\s*(`{3,}|~{3,})/)?.[1];
    if (!fence && blank && /^[^\s\-*+>\d]/.test(line)) found = at;
    if (mark && !fence) fence = mark;
    else if (mark && line.trim().startsWith(fence) && /^\s*[`~]+\s*$/.test(line)) fence = "";
    blank = !line.trim();
    at += line.length + 1;
  }
  return found;
}

const DEEPEST = 20; // levels of lists, quotes and emphasis that are drawn as such
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( +)(?=\S)|( *)$)/;
const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const QUOTE = /^ {0,3}> ?/;
const DASHES = /^ {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/;

const interrupts = (line) => {
  const item = line.match(ITEM);
  const list = item && item[4] === undefined && (!/\d/.test(item[2]) || parseInt(item[2]) === 1);
  return FENCE.test(line) || RULE.test(line) || HEADING.test(line) || QUOTE.test(line) || list;
};

// Render lines of Markdown as blocks into `parent`; in a tight list, paragraphs are bare.
function blocks(lines, parent, depth = 0, tight = false) {
  if (depth > DEEPEST) return void parent.append(lines.join("\n"));
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    let found;
    if (!line.trim()) at += 1;
    else if ((found = line.match(FENCE))) at = fenced(lines, at, found, parent);
    else if (RULE.test(line)) at += (parent.append(make("hr", "")), 1);
    else if ((found = line.match(HEADING))) {
      const title = line.trim().slice(found[1].length).trim();
      parent.append(inline(title.replace(/(^| )#+$/, "").trimEnd(), make(`h${found[1].length}`, "")));
      at += 1;
    } else if (QUOTE.test(line)) at = quote(lines, at, parent, depth);
    else if ((found = line.match(ITEM))) at = list(lines, at, found, parent, depth);
    else if (startsTable(lines, at)) at = table(lines, at, parent);
    else at = paragraph(lines, at, parent, tight);
  }
}

function paragraph(lines, at, parent, tight) {
  const start = at++;
  while (at < lines.length && lines[at].trim() && !interrupts(lines[at]) && !startsTable(lines, at)) at += 1;
  const text = lines.slice(start, at).map((line) => line.trimStart()).join("\n").trimEnd();
  if (tight) inline(text, parent);
  else parent.append(inline(text, make("p", "")));
  return at;
}

function fenced(lines, at, [, indent, mark], parent) {
  const end = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},} *$`);
  const start = ++at;
  while (at < lines.length && !end.test(lines[at])) at += 1;
  const inside = lines.slice(start, at).map((line) => line.replace(new RegExp(`^ {0,${indent.length}}`), ""));
  parent.append(make("pre", "", make("code", "", inside.map((line) => `${line}\n`).join(""))));
  return at + 1;
}

function quote(lines, at, parent, depth) {
  const inside = [];
  for (; at < lines.length && lines[at].trim(); at += 1) {
    const last = inside.at(-1) ?? "";
    const goesOn = last.trim() && !interrupts(last) && !last.includes("|") && !inFence(inside) && !interrupts(lines[at]);
    if (!QUOTE.test(lines[at]) && !goesOn) break;
    inside.push(lines[at].replace(QUOTE, ""));
  }
  const box = make("blockquote", "");
  blocks(inside, box, depth + 1);
  parent.append(box);
  return at;
}

function list(lines, at, [, , first], parent, depth) {
  const ordered = /\d/.test(first);
  const kind = first.at(-1);
  const items = [];
  let loose = false, blank = false;
  while (at < lines.length) {
    const found = lines[at].match(ITEM);
    if (!found || found[2].at(-1) !== kind || RULE.test(lines[at])) break;
    const width = found[1].length + found[2].length + (found[3]?.length > 4 ? 1 : (found[3]?.length ?? 1));
    const item = [lines[at].slice(width)];
    loose ||= blank;
    blank = false;
    for (at += 1; at < lines.length; at += 1) {
      const line = lines[at];
      if (!line.trim()) blank = true;
      else if (line.search(/\S/) >= width) {
        const rest = line.slice(width);
        const within = item.slice(1).some((one) => ITEM.test(one)) && (ITEM.test(rest) || /^\s/.test(rest));
        loose ||= blank && item.some((one) => one.trim()) && !inFence(item) && !within;
        blank = false;
      } else if (blank || ITEM.test(line) || interrupts(line)) break;
      item.push(line.slice(Math.min(width, Math.max(0, line.search(/\S/)))));
    }
    items.push(item);
  }
  const box = make(ordered ? "ol" : "ul", "");
  if (ordered && parseInt(first) !== 1) box.setAttribute("start", parseInt(first));
  for (const item of items) {
    const entry = make("li", "");
    blocks(item, entry, depth + 1, !loose);
    box.append(entry);
  }
  parent.append(box);
  return at;
}

const inFence = (lines) => lines.filter((line) => FENCE.test(line)).length % 2 === 1;

const cells = (line) =>
  line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));

const startsTable = (lines, at) =>
  lines[at].includes("|") && DASHES.test(lines[at + 1] ?? "") && cells(lines[at]).length === cells(lines[at + 1]).length;

function table(lines, at, parent) {
  const aligns = cells(lines[at + 1]).map((dash) => (/^:-+:$/.test(dash) ? "center" : /-:$/.test(dash) ? "right" : /^:/.test(dash) ? "left" : ""));
  const row = (tag, line) =>
    make("tr", "", ...aligns.map((align, index) => {
      const cell = inline(cells(line)[index] ?? "", make(tag, ""));
      if (align) cell.style.textAlign = align;
      return cell;
    }));
  const head = make("thead", "", row("th", lines[at]));
  const body = make("tbody", "");
  for (at += 2; at < lines.length && lines[at].trim() && !interrupts(lines[at]); at += 1) body.append(row("td", lines[at]));
  parent.append(make("table", "", head, ...(body.childNodes.length ? [body] : [])));
  return at;
}

const SPECIAL = /[\\`<![*_\n]/g;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/iy;
const LINK = /!?\[((?:\\[^]|[^[\]\\])*)\]\(\s*((?:\([^\s()]*\)|\\[^]|[^\s()<>\\])*)(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const SAFE = /^(https?:\/\/|mailto:)/i;
const WORD = /[\p{L}\p{N}]/u;

// Render a run of text with its emphasis, code and links into `parent`; what does not close is text.
function inline(text, parent, depth = 0) {
  const unclosed = new Set();
  let plain = "";
  let at = 0;
  let found;
  const add = (node, end) => {
    if (plain) parent.append(plain);
    plain = "";
    parent.append(node);
    at = end;
  };
  const literal = (end) => ((plain += text.slice(at, end)), (at = end));
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    literal(SPECIAL.exec(text)?.index ?? text.length);
    const char = text[at];
    if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) (at += 1), literal(at + 1);
    else if (char === "\n" || (char === "\\" && text[at + 1] === "\n")) {
      plain = plain.trimEnd();
      add(make("br", ""), at + (char === "\n" ? 1 : 2));
    } else if (char === "`") code();
    else if (char === "*" || char === "_") emphasis(char);
    else if (char === "<" && match(AUTOLINK)) add(link(found[1], found[1]), AUTOLINK.lastIndex);
    else if ((char === "[" || char === "!") && match(LINK) && SAFE.test(found[2])) {
      const end = LINK.lastIndex;
      add(char === "!" ? link(found[2], found[1] || "picture") : inline(found[1], link(found[2]), depth + 1), end);
    } else if (at < text.length) literal(at + 1);
  }
  if (plain) parent.append(plain);
  return parent;

  function match(pattern) {
    pattern.lastIndex = at;
    return (found = pattern.exec(text));
  }

  function code() {
    const [start, end] = ticks(text, at, unclosed);
    if (end < 0) return literal(start);
    const inside = text.slice(start, end).replace(/\n/g, " ");
    const bare = /^ .* $/.test(inside) && inside.trim() ? inside.slice(1, -1) : inside;
    add(make("code", "", bare), end + start - at);
  }

  function emphasis(char) {
    const run = runLength(text, at);
    const before = text[at - 1] ?? " ";
    const opens = /\S/.test(text[at + run] ?? " ") && !(char === "_" && WORD.test(before));
    const end = opens && run <= 3 && depth < DEEPEST ? closing(text, at + run, char, run, unclosed) : -1;
    if (end < 0) return literal(at + run);
    const inside = text.slice(at + run, end);
    const outer = make(run === 2 ? "strong" : "em", "");
    inline(inside, run === 3 ? outer.appendChild(make("strong", "")) : outer, depth + 1);
    add(outer, end + run);
  }
}

function runLength(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

// The start and end of what stands between the ticks at `at` and as many later on; end is -1 if they don't close.
function ticks(text, at, unclosed) {
  const run = runLength(text, at);
  const start = at + run;
  const mark = "`".repeat(run);
  if (!unclosed.has(mark)) {
    for (let end = text.indexOf("`", start); end >= 0; end = text.indexOf("`", end)) {
      const length = runLength(text, end);
      if (length === run) return [start, end];
      end += length;
    }
    unclosed.add(mark);
  }
  return [start, -1];
}

// Where the emphasis of `count` marks that opened before `from` closes; -1 if it doesn't. What opens inside closes first.
function closing(text, from, char, count, unclosed, depth = 0) {
  const mark = char.repeat(count);
  if (unclosed.has(mark) || depth > DEEPEST) return -1;
  let none = true;
  for (let at = from; at < text.length; ) {
    if (text[at] === "\\") at += 2;
    else if (text[at] === "`") {
      const [start, end] = ticks(text, at, unclosed);
      at = end < 0 ? start : end + start - at;
    } else if (text[at] === char) {
      const run = runLength(text, at);
      const fits = count === 1 ? run !== 2 : run >= count;
      const ends = at > from && /\S/.test(text[at - 1]) && (char === "*" || !WORD.test(text[at + run] ?? " "));
      if (ends && fits) return at;
      const inner = ends || run > 3 ? -1 : closing(text, at + run, char, run, unclosed, depth + 1);
      none &&= !ends && inner < 0;
      at = inner < 0 ? at + run : inner + run;
    } else at += 1;
  }
  if (none) unclosed.add(mark);
  return -1;
}

function link(url, text = "") {
  const made = make("a", "", text);
  made.href = url;
  made.rel = "noopener noreferrer";
  made.target = "_blank";
  return made;
}

export { Prose };
