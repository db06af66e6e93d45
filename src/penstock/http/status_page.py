"""The page of `status.py`, as one text: no other file, no other host, nothing but what the events say."""

PAGE = r"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock: status</title>
<style>
:root { --ink: #1c2733; --soft: #5d6b79; --line: #dde3e9; --paper: #f6f8fa; --card: #fff; --water: #1f7a9c; --pale: #d6e9f1;
  --alarm: #b4412f; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #93a1af; --line: #2c3742; --paper: #12181e;
  --card: #1a222a; --water: #58b4d6; --pale: #24404d; --alarm: #e58573; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header { display: flex; align-items: baseline; gap: 1rem; padding: 1.1rem 1.5rem .4rem; max-width: 75rem; margin: auto; }
h1 { font-size: 1.25rem; margin: 0; } h2 { font-size: .95rem; margin: 0 0 .6rem; }
#state { color: var(--soft); } #state.lost { color: var(--alarm); font-weight: 600; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; padding: 1rem 1.5rem 2rem;
  max-width: 75rem; margin: auto; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.1rem; }
.wide { grid-column: 1 / -1; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; }
.figure b { display: block; font-size: 1.6rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.figure span { color: var(--soft); font-size: .85rem; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .22rem 0; text-align: left; font-weight: normal; } td:last-child { text-align: right; }
td:only-child { text-align: left; } td:not(.bar) { white-space: nowrap; } td + td { padding-left: .7rem; }
tr + tr td, tr + tr th { border-top: 1px solid var(--line); }
.bar { width: 38%; } .bar i { display: block; height: .6rem; border-radius: .3rem; background: var(--water);
  min-width: 1px; }
.bar div { background: var(--pale); border-radius: .3rem; overflow: hidden; }
.none { color: var(--soft); } .alarm { color: var(--alarm); font-weight: 600; }
#turns { display: flex; align-items: flex-end; gap: 2px; height: 8rem; }
#turns div { flex: 1; display: flex; flex-direction: column; justify-content: flex-end; height: 100%; min-width: 0; }
#turns i { background: var(--water); border-radius: 2px 2px 0 0; height: calc((100% - 1.1rem) * var(--share)); }
#turns span { font-size: .68rem; color: var(--soft); text-align: center; height: 1.1rem; overflow: hidden;
  white-space: nowrap; }
footer { max-width: 75rem; margin: auto; padding: 0 1.5rem 2rem; color: var(--soft); font-size: .85rem; }
a { color: var(--water); }
</style>
</head>
<body>
<header><h1>Penstock</h1><span id="state" role="status">connecting &#8230;</span></header>
<main>
<section class="wide"><div class="figures">
<div class="figure"><b id="rate">&#8211;</b><span>requests per second</span></div>
<div class="figure"><b id="open">&#8211;</b><span>connections</span></div>
<div class="figure"><b id="waiting">&#8211;</b><span>requests waiting</span></div>
<div class="figure"><b id="work">&#8211;</b><span>requests in work</span></div>
<div class="figure"><b id="refusals">&#8211;</b><span>refused per second</span></div>
<div class="figure"><b id="slow">&#8211;</b><span>99 % of turns below</span></div>
</div></section>
<section><h2>Connections by state</h2><table id="states"></table></section>
<section><h2>Answers</h2><table id="answers"></table></section>
<section><h2>Refused, by reason</h2><table id="refused"></table></section>
<section><h2>Deadlines that passed, by state</h2><table id="timeouts"></table></section>
<section><h2>Bounds</h2><table id="bounds"></table></section>
<section><h2>Lanes</h2><table id="lanes"></table></section>
<section class="wide"><h2>Turns of the loop, by duration (heights are logarithms)</h2><div id="turns"></div></section>
</main>
<footer>The same figures:
<a href="/metrics">/metrics</a> for Prometheus, <a href="/status">/status</a> in ten lines.</footer>
<script>
"use strict";
const at = id => document.getElementById(id);
const count = value => Number(value || 0).toLocaleString("en");
const make = name => document.createElement(name);
const cell = (text, name) => { const td = make("td"); td.textContent = text; if (name) td.className = name; return td; };
const time = ns => ns < 1e3 ? ns + " ns" : ns < 1e6 ? Math.round(ns / 1e3) + " \u00b5s"
  : ns < 1e9 ? Math.round(ns / 1e6) + " ms" : (ns / 1e9).toFixed(1) + " s";
function bar(share) {
  const td = cell("", "bar"), back = make("div"), front = make("i");
  front.style.width = Math.min(100, 100 * share) + "%"; back.append(front); td.append(back); return td;
}
function table(id, rows, none) {
  at(id).replaceChildren(...(rows.length ? rows : [[cell(none, "none")]]).map(cells => {
    const tr = make("tr"); tr.append(...cells); return tr; }));
}
function counts(id, figures, none) {
  const pairs = Object.entries(figures || {}).filter(pair => pair[1] > 0);
  const most = Math.max(1, ...pairs.map(pair => pair[1]));
  table(id, pairs.map(([name, value]) => [cell(name), bar(value / most), cell(count(value))]), none);
}
const sum = figures => Object.values(figures || {}).reduce((a, b) => a + b, 0);
let before = null, then = 0;
function show(now) {
  const loop = now.loop || {}, admission = now.admission || {}, seconds = (performance.now() - then) / 1e3;
  if (before) {
    at("rate").textContent = count(Math.max(0, Math.round((now.requests - before.requests) / seconds)));
    const refused = Math.max(0, Math.round((sum(now.refused) - sum(before.refused)) / seconds));
    at("refusals").textContent = count(refused); at("refusals").className = refused ? "alarm" : "";
  }
  before = now; then = performance.now();
  at("open").textContent = count(now.open);
  at("waiting").textContent = count(admission.waiting);
  at("work").textContent = count(admission.in_work);
  counts("states", now.states, "no connection is open");
  counts("answers", now.answers, "nothing was asked yet");
  counts("refused", now.refused, "nothing was refused");
  counts("timeouts", now.timeouts, "none has passed");
  table("bounds", Object.entries(now.bounds || {}).map(([name, [value, most]]) =>
    [cell(name), bar(most ? value / most : 0), cell(count(value) + " of " + count(most))]), "none");
  table("lanes", Object.entries(loop.lanes || {}).map(([name, lane]) =>
    [cell(name), bar(lane.depth / lane.capacity), cell(count(lane.depth) + " of " + count(lane.capacity)),
     cell(count(lane.dropped) + " dropped", lane.dropped ? "alarm" : "none")]), "the server has no lanes of its own");
  turns(loop.turn_ns || []);
}
function turns(buckets) {
  const first = 9, all = buckets.reduce((a, b) => a + b, 0);
  let last = first, seen = 0, slow = 0;
  buckets.forEach((value, k) => { if (value) last = Math.max(last, k); });
  for (let k = 0; k < buckets.length && !slow; k++) { seen += buckets[k]; if (seen >= .99 * all && all) slow = 2 ** k; }
  at("slow").textContent = all ? time(slow) : "\u2013";
  const most = Math.log1p(Math.max(1, ...buckets));
  at("turns").replaceChildren(...buckets.slice(first, last + 1).map((value, k) => {
    const column = make("div"), block = make("i"), label = make("span");
    block.style.setProperty("--share", Math.log1p(value) / most); label.textContent = time(2 ** (k + first));
    column.title = count(value) + " turns below " + time(2 ** (k + first)); column.append(block, label); return column; }));
}
const events = new EventSource("/events");
function state(text, name) { at("state").textContent = text; at("state").className = name; }
events.onmessage = event => { state("live", ""); show(JSON.parse(event.data)); };
events.onerror = () => state("the server does not answer; trying again", "lost");
</script>
</body>
</html>
""".encode()
