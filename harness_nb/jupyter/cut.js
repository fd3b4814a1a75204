// What becomes of a run whose kernel goes away under it: nobody is left to put the record in the live view's place,
// so the page does. It draws what the person had seen, as plain elements that need no kernel and no style
// sheet, and puts it into the notebook where JupyterLab lets it. Other front ends keep the live view, ended.

const GONE = { restarting: "restarted", autorestarting: "restarted", terminating: "was shut down", dead: "died" };
const VIEW = "application/vnd.jupyter.widget-view+json";
const FOLDED = 2000; // characters of one folded text
const SAID = 40000; // characters of one stretch of words
const LINE = "1px solid rgba(128,128,128,0.35)";
const FAINT = "opacity:0.72";
const ROW = "margin:0 0 4px 0;font-size:13px;line-height:20px";
const BOX = `margin:4px 0 8px 14px;padding:8px 10px;border:${LINE};border-radius:4px;overflow:auto;max-height:240px;white-space:pre-wrap`;
const CODE = "padding:0;background-color:transparent;font-family:monospace;font-size:0.92em";
const UNSURE = "— cut off: it may have run";
const LEFT = { writing: "— cut off before it was asked for", asking: "— cut off before it was decided", waiting: UNSURE, running: UNSURE };

// Call `lost` with what happened, once, when the kernel goes away; return what ends the watch.
function watch(model, lost) {
  const kernel = model.widget_manager?.kernel;
  const told = (_, status) => GONE[status] && over(GONE[status]);
  const unheard = () => over("went away"); // JupyterLab's manager sets its models' comm_live when it lets go of a kernel
  const end = () => (kernel?.statusChanged?.disconnect(told), model.off("comm_live_update", unheard));
  const over = (how) => (end(), lost(how));
  kernel?.statusChanged?.connect(told);
  model.on("comm_live_update", unheard);
  return end;
}

function cutShort(run, how) {
  const again = "To go on from here, run the cell with `%load_ext harness_nb` and those that define your tools, then `%resume`.";
  const suspended = run.head.reason === "suspended"; // then its record stands already, and only the question is here
  const ending = suspended
    ? `The kernel ${how} before this was decided, so it was not run. ${again}`
    : `The kernel ${how} in the middle of this run, so it was cut short. What its tools had done by then stands. ${again}`;
  if (suspended) [run.prompt, run.parts.length] = ["", 0];
  run.head = { ...run.head, doing: "cut short", reason: "cut", ending };
  for (const part of run.parts) {
    if (part.kind === "call" && LEFT[part.state]) Object.assign(part, { upshot: LEFT[part.state], question: "", state: "cut" });
    part.busy = false;
  }
}

// Put the run as far as it came where the widget of this id stands in the notebook.
function keep(manager, id, run) {
  for (const cell of manager?.context?.model?.cells ?? []) {
    for (let index = 0; index < (cell.outputs?.length ?? 0); index++) {
      const { data } = cell.outputs.get(index);
      if (data[VIEW]?.model_id !== id) continue;
      const form = { "text/html": remains(run).outerHTML, "text/plain": inWords(run) };
      cell.outputs.set(index, { output_type: "display_data", data: form, metadata: {} });
    }
  }
}

function remains({ prompt, head, parts }) {
  const about = styled("span", FAINT, head.model ?? "");
  const title = make("span", "", make("strong", "", "agent"), ` · ${head.doing}`, styled("span", "opacity:0", " · "));
  const bar = `display:flex;flex-wrap:wrap;justify-content:space-between;padding:6px 14px;border-bottom:${LINE};font-size:13px;line-height:20px`;
  const quoted = styled("div", `margin:0 0 10px 0;padding-left:12px;border-left:3px solid rgba(128,128,128,0.35);white-space:pre-wrap;${FAINT}`, prompt);
  const ending = styled("div", "margin:8px 0 10px 0;padding-left:12px;border-left:3px solid rgb(128,128,128)", ...named(head.ending));
  const inside = styled("div", "padding:12px 14px 2px 14px", ...(prompt ? [quoted] : []), ...parts.map(remnant), ending);
  const all = styled("div", `box-sizing:border-box;border:${LINE};border-radius:6px;max-width:860px;margin:2px 0;font-size:14px;line-height:1.55;overflow-wrap:break-word`, styled("div", bar, title, about), inside);
  all.querySelectorAll("code:not([style])").forEach((code) => (code.style.cssText = CODE));
  all.className = "tex2jax_ignore mathjax_ignore"; // else MathJax reads prices in dollars as formulas
  return all;
}

function remnant(part) {
  const { kind, body, name, arguments: line, upshot, input, output, aside, text } = part;
  if (kind === "text") {
    const prose = new Prose();
    prose.draw({ body: clip(body, SAID) });
    return styled("div", "padding-top:6px;overflow-x:auto", ...prose.element.childNodes);
  }
  if (kind === "note") return styled("div", `${ROW};padding-left:14px;${FAINT}`, ...named(text));
  if (kind === "decision") return decided(part);
  const thinking = kind === "thinking";
  const head = thinking ? [styled("span", FAINT, `Thinking${aside ? ` · ${aside}` : ""}`)] : [styled("code", CODE, make("strong", "", name), ` ${line}`), " ", styled("span", FAINT, upshot)];
  const boxes = thinking ? [["", body]] : [["Arguments", input || body], ["Result", output]];
  const shown = boxes.filter(([, held]) => held).flatMap(([label, held]) => [styled("div", `${FAINT};margin-left:14px;font-size:12px`, label), styled("pre", BOX, clip(held, FOLDED))]);
  return styled("details", ROW, styled("summary", "cursor:pointer;padding-left:14px;text-indent:-14px", ...head), ...shown);
}

function decided({ headline, numbers, bars, rows, summary }) {
  const shares = bars.map(({ name, amount }) => `${name} ${amount}`).join("; ");
  const list = rows.map(([at, what, fate, before, after]) => `${at}  ${what}: ${fate}, ${before} → ${after} tokens`).join("\n");
  const boxes = [["What happened to each message", list], ["The summary that the model reads instead", summary]];
  const folds = boxes.filter(([, held]) => held).map(([label, held]) => styled("details", ROW, styled("summary", "cursor:pointer;padding-left:14px;text-indent:-14px", label), styled("pre", BOX, clip(held, FOLDED))));
  return styled("div", `${ROW};margin:6px 0 10px 0;padding:8px 12px;border:${LINE};border-radius:6px`, make("strong", "", ...named(headline)), ` ${numbers} ${shares}`, ...folds);
}

function inWords({ prompt, head, parts }) {
  const lines = parts.map(({ kind, body, name, arguments: line, upshot, text, headline, numbers }) => ({ text: clip(body, SAID), thinking: "  (thinking)", note: `  ${text}`, call: `  ${name} ${line} ${upshot}`, decision: `  ${headline} ${numbers}` })[kind]);
  return [`agent · ${head.doing} · ${head.model ?? ""}`, prompt && `> ${prompt}`, "", ...lines, "", head.ending].join("\n");
}

function styled(tag, style, ...children) {
  const element = make(tag, "", ...children);
  element.style.cssText = style;
  return element;
}

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most)}\n[… ${(text.length - most).toLocaleString("en")} characters not shown …]` : text;
}
