/* SPDX-License-Identifier: MIT
 *
 * The page of the control port. It asks for /stats.json twice a second, and needs nothing else.
 */
#include "worker_parts.h"

#ifdef __linux__

/* clang-format off */

static const char head[] =
"<!doctype html>\n"
"<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\n"
"<title>Worker</title><link rel=icon href='data:,'>\n"
"<style>\n"
":root { color-scheme: light dark; --ink: #1b2733; --dim: #66727f; --line: #d9dfe5; --back: #fff;\n"
"        --use: #1f77b4; --wait: #e8a020; --no: #c8352b; }\n"
"@media (prefers-color-scheme: dark) {\n"
"  :root { --ink: #e4e9ee; --dim: #97a3af; --line: #37424d; --back: #161c22; } }\n"
"body { font: 15px/1.4 system-ui, sans-serif; color: var(--ink); background: var(--back);\n"
"       max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }\n"
"h1 { font-size: 1.3rem; margin: 0; }\n"
"#state { color: var(--dim); margin: 0 0 1.5rem; } .bad { color: var(--no) !important; }\n"
"dl { display: grid; grid-template-columns: repeat(4, 1fr); gap: 1px; margin: 0 0 1.5rem;\n"
"     background: var(--line); border: 1px solid var(--line); }\n"
"dl > div { background: var(--back); padding: .6rem .8rem; }\n"
"dt { color: var(--dim); font-size: .8rem; }\n"
"dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }\n"
"dd small { font-size: .9rem; color: var(--dim); }\n"
".bar { height: 6px; background: var(--line); margin-top: .3rem; }\n"
".bar i { display: block; height: 100%; width: 0; background: var(--use); }\n"
"#queued_bar { background: var(--wait); }\n"
"svg { width: 100%; height: 150px; border: 1px solid var(--line); display: block; }\n"
"polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }\n"
".key { color: var(--dim); font-size: .8rem; margin: .3rem 0 1.5rem; }\n"
".key b { display: inline-block; width: 1.2em; height: 3px; vertical-align: middle; }\n"
"input { width: 6rem; font: inherit; } button { font: inherit; }\n"
"form label { margin-right: 1rem; } #said { margin-left: 1rem; color: var(--dim); }\n"
"</style>\n";

static const char body[] =
"<h1>Worker</h1>\n"
"<p id=state>asks for figures ...</p>\n"
"<dl>\n"
"<div><dt>in use<dd><span id=in_use>-</span> <small>of <span id=permits>-</span></small>"
"<div class=bar><i id=in_use_bar></i></div></div>\n"
"<div><dt>queued<dd><span id=queued>-</span> <small>of <span id=queue>-</span></small>"
"<div class=bar><i id=queued_bar></i></div></div>\n"
"<div><dt>answered 200<dd><span id=answered_per_second>-</span> <small>a second</small></div>\n"
"<div><dt>refused 429<dd><span id=refused_per_second>-</span> <small>a second</small></div>\n"
"<div><dt>wait p50<dd><span id=wait_p50_ms>-</span> <small>ms</small></div>\n"
"<div><dt>wait p99<dd><span id=wait_p99_ms>-</span> <small>ms</small></div>\n"
"<div><dt>run p50<dd><span id=run_p50_ms>-</span> <small>ms</small></div>\n"
"<div><dt>run p99<dd><span id=run_p99_ms>-</span> <small>ms</small></div>\n"
"</dl>\n"
"<svg viewBox='0 0 120 100' preserveAspectRatio=none>\n"
"<polyline id=use_line style='stroke: var(--use)' /><polyline id=wait_line style='stroke: var(--wait)' />"
"<polyline id=no_line style='stroke: var(--no)' /></svg>\n"
"<p class=key>the last minute: <b style='background: var(--use)'></b> in use, "
"<b style='background: var(--wait)'></b> queued, <b style='background: var(--no)'></b> 429 a second; "
"each of its highest: <span id=highest></span></p>\n"
"<form id=form>\n"
"<label>at once <input name=permits pattern='[0-9]+|null' required></label>\n"
"<label>waiting <input name=queue pattern='[0-9]+|null' required></label>\n"
"<button>Change</button><span id=said>digits; null is no limit</span>\n"
"</form>\n"
"<p class=key>The figures a second and the times are of the last 10 seconds.</p>\n";

static const char script[] =
"<script>\n"
"'use strict';\n"
"const $ = id => document.getElementById(id), past = [], form = $('form');\n"
"let busy = false, last = null, at = 0;\n"
"function limit(n) { return n === null ? 'null' : String(n); }\n"
"function bar(id, n, most) { $(id).style.width = most ? Math.min(100, 100 * n / most) + '%' : '0'; }\n"
"function line(id, of) {\n"
"  const highest = Math.max(1, ...past.map(of));\n"
"  $(id).setAttribute('points', past.map((h, i) =>\n"
"    (120 - past.length + i) + ',' + (96 - 92 * of(h) / highest)).join(' '));\n"
"  return Math.round(highest);\n"
"}\n"
"function show(s) {\n"
"  for (const name of ['in_use', 'queued']) $(name).textContent = s[name];\n"
"  for (const name of ['permits', 'queue']) {\n"
"    $(name).textContent = s[name] === null ? '\\u221e' : s[name];\n"
"    if (last === null || (last[name] !== s[name] && document.activeElement !== form[name]))\n"
"      form[name].value = limit(s[name]);\n"
"  }\n"
"  for (const name in s) if (/_ms$|_per_second$/.test(name) && $(name))\n"
"    $(name).textContent = s[name] < 10 ? s[name].toFixed(1) : Math.round(s[name]);\n"
"  bar('in_use_bar', s.in_use, s.permits);\n"
"  bar('queued_bar', s.queued, s.queue);\n"
"  const now = performance.now(), n = last === null ? 0 : (s.refused - last.refused) * 1000 / (now - at);\n"
"  past.push({use: s.in_use, wait: s.queued, no: n});\n"
"  if (past.length > 120) past.shift();\n"
"  $('highest').textContent = [line('use_line', h => h.use), line('wait_line', h => h.wait),\n"
"    line('no_line', h => h.no)].join(', ');\n"
"  $('state').textContent = (s.ready ? 'ready' : 'not ready') + ', ' +\n"
"    (s.single_thread ? 'a single thread' : 'a thread each') + '; a refusal says: again in ' +\n"
"    s.retry_after_s + ' s; most handlers at once so far: ' + s.handlers_peak;\n"
"  $('state').className = s.ready ? '' : 'bad';\n"
"  last = s;\n"
"  at = now;\n"
"}\n"
"async function look() {\n"
"  if (busy) return;\n"
"  busy = true;\n"
"  try { show(await (await fetch('/stats.json')).json()); }\n"
"  catch (e) { $('state').textContent = 'no answer: ' + e.message; $('state').className = 'bad'; }\n"
"  busy = false;\n"
"}\n"
"form.onsubmit = async e => {\n"
"  e.preventDefault();\n"
"  const r = await fetch('/limits', {method: 'POST', body: new URLSearchParams(new FormData(form))});\n"
"  if (r.ok) { show(await r.json()); $('said').textContent = 'changed'; }\n"
"  else $('said').textContent = await r.text();\n"
"};\n"
"look();\n"
"setInterval(look, 500);\n"
"</script>\n";

/* clang-format on */

/* In parts, since C11 promises no longer strings. */
const char *const worker_page[] = {head, body, script};
const unsigned worker_page_parts = sizeof worker_page / sizeof *worker_page;

#endif
