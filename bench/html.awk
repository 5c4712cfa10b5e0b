# SPDX-License-Identifier: MIT
#
# The results as one HTML page, with pictures and without anything that must be loaded or run. After
# results.awk:
#
#     awk -f bench/results.awk -f bench/html.awk build/bench_*.json >build/bench.html

function escape(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}

function log10(x) {
    return log(x) / log(10)
}

# Time of someone with a unit that suits it.
function time_text(ns) {
    ns += 0
    return ns < 9995 ? figure(ns) " ns" : ns < 9995000 ? figure(ns / 1000) " µs" \
        : figure(ns / 1000000) " ms"
}

function print_head() {
    print "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">"
    print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    print "<title>Plimsoll, measured</title>\n<style>"
    print ":root { color-scheme: light dark; --paper: #fdfcfa; --card: #fff; --ink: #1d2733;"
    print "  --soft: #5d6b7a; --rule: #e3e1dc; --ours: #d1372c; --ours2: #e8893b; --limit: #8d99a6;"
    print "  --peer: #9db4c8; --good: #1d7f4e; --bad: #b3541e;"
    print "  --p0: #2f6fa8; --p1: #2a9187; --p2: #7a5ba6; --p3: #b58a16; --p4: #4f8f3a;"
    print "  --p5: #a14f7d; --p6: #7d6a55; --p7: #5b6a9c; }"
    print "@media (prefers-color-scheme: dark) { :root { --paper: #14191f; --card: #1b222a;"
    print "  --ink: #e4e9ee; --soft: #9aa8b6; --rule: #2e3843; --ours: #ff7465; --ours2: #ffb066;"
    print "  --limit: #8794a1; --peer: #50687e; --good: #5fcf97; --bad: #f0a36b;"
    print "  --p0: #6cb0ea; --p1: #57c9bd; --p2: #b79be6; --p3: #dfb64a; --p4: #8cca74;"
    print "  --p5: #e08dbb; --p6: #c0a98e; --p7: #98a9e0; } }"
    print "body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 72rem;"
    print "  background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }"
    print "h1 { font-size: 2rem; margin: 0 0 .25rem; letter-spacing: -.01em; }"
    print "h2 { font-size: 1.35rem; margin: 3rem 0 .25rem; } h3 { font-size: .95rem; margin: 0; }"
    print "p { margin: .25rem 0 1rem; max-width: 46rem; } .soft { color: var(--soft); }"
    print "a { color: inherit; } code { font-size: .9em; }"
    print "dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem;"
    print "  margin: 1.25rem 0; font-size: .9rem; } dt { color: var(--soft); } dd { margin: 0; }"
    print ".grid { display: grid; gap: 1rem; margin: 1rem 0;"
    print "  grid-template-columns: repeat(auto-fill, minmax(20.5rem, 1fr)); }"
    print ".wide { grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr)); }"
    print ".four { grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); }"
    print ".card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;"
    print "  padding: .9rem 1rem; text-decoration: none; } .card svg { margin-top: .5rem; }"
    print ".card b { display: block; font-size: 1.5rem; } .small { font-size: .8rem; }"
    print "svg { display: block; width: 100%; height: auto; }"
    print "svg text { fill: var(--ink); font-size: 11px; font-family: system-ui, sans-serif; }"
    print "svg text.soft { fill: var(--soft); } svg text.ours { font-weight: 700; }"
    print "svg .rule { stroke: var(--rule); } svg .axis { stroke: var(--limit); }"
    print "rect.ours { fill: var(--ours); } rect.peer { fill: var(--peer); }"
    print "rect.limit { fill: var(--limit); }"
    print "polyline { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-linejoin: round; }"
    print "circle { fill: var(--c); } .ours polyline { stroke-width: 3; }"
    print ".limit polyline { stroke-dasharray: 5 4; stroke-width: 2; }"
    print ".key { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .8rem;"
    print "  padding: 0; margin: .5rem 0 0; list-style: none; }"
    print ".key li::before { content: ''; display: inline-block; width: 1rem; height: .2rem;"
    print "  margin-right: .35rem; vertical-align: middle; background: var(--c); }"
    print ".scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; }"
    print "th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--rule);"
    print "  font-variant-numeric: tabular-nums; white-space: nowrap; font-weight: 400; }"
    print "th { color: var(--soft); } td:first-child, th:first-child, td.text { text-align: left; }"
    print "tr.ours td { color: var(--ours); font-weight: 600; } tr.limit td { color: var(--soft); }"
    print "summary { cursor: pointer; margin: .6rem 0; color: var(--soft); font-size: .85rem; }"
    print ".met { color: var(--good); } .missed { color: var(--bad); font-weight: 600; }"
    print "@media print { .card { break-inside: avoid; } }"
    print "</style>"
}

function print_fact(name, value) {
    printf "<dt>%s</dt><dd>%s</dd>\n", name, escape(value)
}

function print_machine(    i, m, busy, first, absent) {
    for (i = modules; i >= 1; i--) {
        if (module_name[i] in there) {
            first = module_name[i]
        }
    }
    print "<h1>Plimsoll, measured</h1>"
    print "<p class=\"soft\">Time beside the limit, which is the bare mechanism, and beside the"
    print "peers, all taking turns in one run. Read ratios, not nanoseconds: 1 is the limit, less"
    print "is better.</p>\n<dl>"
    print_fact("Machine", about[first, "cpu"] ", " about[first, "cpus"] " CPUs, kernel " \
        about[first, "kernel"])
    print_fact("Compiler", about[first, "compiler"] ", " about[first, "flags"])
    print_fact("Date", about[first, "date"])
    for (i = 1; i <= modules; i++) {
        m = module_name[i]
        if (m in there) {
            print_fact(m, sprintf("%d repetitions of %d ms, %d s in all; in that time others " \
                "used %.0f %% of the CPUs, the host took %.0f %%", about[m, "reps"], about[m, "ms"], \
                about[m, "seconds"], 100 * about[m, "others"], 100 * about[m, "stolen"]))
            if (about[m, "others"] > 0.15) {
                busy = 1
            }
        }
    }
    print "</dl>"
    if (busy) {
        print "<p class=\"missed\">Others kept this machine busy: read the contended figures with care.</p>"
    }
    if (about[first, "ms"] < 100) {
        print "<p class=\"missed\">A short run, made to see that all works: it is rough.</p>"
    }
    print "<div class=\"grid four\">"
    for (i = 1; i <= modules; i++) {
        m = module_name[i]
        if (m in there) {
            printf "<a class=\"card\" href=\"#%s\"><h3>%s.h</h3><b>%d <span class=\"soft\">of %d" \
                "</span></b><span class=\"soft small\">bars met</span></a>\n", m, m, met[m], bars[m]
        }
    }
    print "</div>"
}

# One column of a module: bars from the limit to the right, or to the left of it if faster.
function print_panel(m, c,    r, i, k, who, count, sorted, least, most, x, width, tall, one, y) {
    least = most = 1
    for (r = 1; r <= rows[m]; r++) {
        who = row_name[m, r]
        if (!((m, c, who) in cell)) {
            continue
        }
        x = cell[m, c, who] + 0
        least = x < least && x > 0 ? x : least
        most = x > most ? x : most
        for (i = ++count; i > 1 && cell[m, c, sorted[i - 1]] + 0 > x; i--) {
            sorted[i] = sorted[i - 1]
        }
        sorted[i] = who
    }
    if (count == 0) {
        return
    }
    most = most < 2 ? 2 : most
    width = 118 / (log10(most) - log10(least))
    one = 172 - width * log10(least)
    tall = 20 * (count + 1) + 4
    printf "<div class=\"card\"><h3>%s</h3><span class=\"soft small\">%s: %s</span>\n", \
        escape(head[m, c]), escape(limit_name[m, c]), time_text(limit_ns[m, c])
    printf "<svg viewBox=\"0 0 340 %d\" role=\"img\" aria-label=\"%s\">\n", tall, escape(head[m, c])
    for (k = 0; k <= count; k++) {
        y = 20 * k
        if (k == 0) {
            printf "<text x=\"%.1f\" y=\"13\" text-anchor=\"middle\" class=\"soft\">limit" \
                "</text>\n", one
            continue
        }
        who = sorted[k]
        x = cell[m, c, who] + 0
        x = x > 0 ? one + width * log10(x) : one
        printf "<text x=\"166\" y=\"%d\" text-anchor=\"end\" class=\"%s\"%s>%s</text>", y + 13, \
            row_kind[m, who], (length(who) > 24 ? " textLength=\"164\" lengthAdjust=" \
            "\"spacingAndGlyphs\"" : ""), escape(who)
        printf "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"13\" rx=\"2\"/>", \
            row_kind[m, who], (x < one ? x : one), y + 3, (x < one ? one - x : x - one) + 1
        printf "<text x=\"%.1f\" y=\"%d\" class=\"%s\">%s</text>\n", (x > one ? x : one) + 5, \
            y + 13, row_kind[m, who], figure(cell[m, c, who])
    }
    printf "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"18\" y2=\"%d\"/>\n</svg></div>\n", \
        one, one, tall
}

function print_cells(m, who,    c) {
    printf "<tr class=\"%s\"><td>%s</td>", row_kind[m, who], escape(who)
    for (c = 1; c <= columns[m]; c++) {
        printf "<td>%s</td>", figure(cell[m, c, who])
    }
    print "</tr>"
}

function print_bar(m, b) {
    printf "<tr><td class=\"%s\">%s</td><td>%s</td><td>%s</td><td class=\"text\">%s</td></tr>\n", \
        bar_met[m, b] ? "met" : "missed", bar_met[m, b] ? "met" : "missed", \
        figure(bar_reached[m, b]), escape(bar_aim[m, b]), escape(bar_text[m, b])
}

function print_module(m,    c, r, b, who, absent) {
    printf "<h2 id=\"%s\">%s.h</h2>\n<p class=\"soft\">Time as a ratio to the limit, on a " \
        "logarithmic scale; %s.</p>\n", m, m, escape(legend[m])
    print "<div class=\"grid\">"
    for (c = 1; c <= columns[m]; c++) {
        print_panel(m, c)
    }
    print "</div>\n<details open><summary>The same as a table</summary>"
    print "<div class=\"scroll\"><table>"
    printf "<tr><th></th>"
    for (c = 1; c <= columns[m]; c++) {
        printf "<th>%s</th>", escape(head[m, c])
    }
    printf "</tr>\n<tr class=\"limit\"><td>limit: 1.00, which is</td>"
    for (c = 1; c <= columns[m]; c++) {
        printf "<td>%s</td>", (m, c) in limit_ns ? time_text(limit_ns[m, c]) : "-"
    }
    print "</tr>"
    for (r = 1; r <= rows[m]; r++) {
        if (row_kind[m, row_name[m, r]] == "ours") {
            print_cells(m, row_name[m, r])
        }
    }
    for (r = 1; r <= rows[m]; r++) {
        if (row_kind[m, row_name[m, r]] == "peer") {
            print_cells(m, row_name[m, r])
        }
    }
    print "</table></div></details>"
    if (missings[m] > 0) {
        absent = missing[m, 1]
        for (b = 2; b <= missings[m]; b++) {
            absent = absent "; " missing[m, b]
        }
        printf "<p class=\"small soft\">Not here: %s.</p>\n", escape(absent)
    }
    printf "<details%s><summary>Bars of %s.h: %d of %d met</summary>" \
        "<div class=\"scroll\"><table>\n", (met[m] < bars[m] ? " open" : ""), m, met[m], bars[m]
    print "<tr><th></th><th>reached</th><th>aim</th><th class=\"text\"></th></tr>"
    for (b = 1; b <= bars[m]; b++) {
        if (!bar_met[m, b]) {
            print_bar(m, b)
        }
    }
    for (b = 1; b <= bars[m]; b++) {
        if (bar_met[m, b]) {
            print_bar(m, b)
        }
    }
    print "</table></div></details>"
}

function colour_of(g, who) {
    if (line_kind[g, who] == "limit") {
        return "--limit"
    }
    if (line_kind[g, who] == "ours") {
        return our_lines++ ? "--ours2" : "--ours"
    }
    if (!(who in peer_colour)) { # one colour in all pictures
        peer_colour[who] = "--p" peer_colours[growth_module[g]]++ % 8
    }
    return peer_colour[who]
}

function print_line(g, k, left, top, across, down, x0, xd, y0, yd,    i, who, x, y, dots, path) {
    who = line_name[g, k]
    for (i = 1; i <= xs[g]; i++) {
        if ((g, who, x_at[g, i]) in point) {
            x = left + across * (log10(x_at[g, i]) - x0) / xd
            y = top + down - down * (log10(point[g, who, x_at[g, i]]) - y0) / yd
            path = path sprintf("%.1f,%.1f ", x, y)
            dots = dots sprintf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>%s, %s %s: %s" \
                "</title></circle>", x, y, line_kind[g, who] == "peer" ? "2.5" : "3.5", \
                escape(who), with_commas(x_at[g, i]), growth_by[g], \
                time_text(point[g, who, x_at[g, i]]))
        }
    }
    printf "<g class=\"%s\" style=\"--c: var(%s)\"><polyline points=\"%s\"/>%s</g>\n", \
        line_kind[g, who], line_colour[g, k], path, dots
}

function print_growth(g,    i, k, who, least, most, x0, xd, y0, yd, y, x, step) {
    our_lines = 0
    least = 1e300
    most = 0
    for (k = 1; k <= lines[g]; k++) {
        who = line_name[g, k]
        line_colour[g, k] = colour_of(g, who)
        for (i = 1; i <= xs[g]; i++) {
            if ((g, who, x_at[g, i]) in point) {
                y = point[g, who, x_at[g, i]] + 0
                least = y < least ? y : least
                most = y > most ? y : most
            }
        }
    }
    x0 = log10(x_at[g, 1])
    xd = log10(x_at[g, xs[g]]) - x0
    xd = xd > 0 ? xd : 1
    y0 = log10(least) - 0.08
    yd = log10(most) + 0.08 - y0
    if (yd < 1) { # a flat line is to look flat
        y0 -= (1 - yd) / 2
        yd = 1
    }
    printf "<div class=\"card\"><h3>%s</h3><span class=\"soft small\">time by %s</span>\n", \
        escape(growth_title[g]), growth_by[g]
    printf "<svg viewBox=\"0 0 500 250\" role=\"img\" aria-label=\"%s\">\n", escape(growth_title[g])
    for (i = -1; i <= 9; i++) {
        for (k = 1; k <= 5; k += k == 1 ? 1 : 3) { # 1, 2, 5
            y = i + log10(k)
            if (y < y0 || y > y0 + yd || (k > 1 && yd > 2.2)) {
                continue
            }
            step = 218 - 205 * (y - y0) / yd
            printf "<line class=\"rule\" x1=\"58\" x2=\"488\" y1=\"%.1f\" y2=\"%.1f\"/>" \
                "<text class=\"soft\" x=\"52\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", \
                step, step, step + 4, tick_text(k * 10 ^ i)
        }
    }
    for (i = 1; i <= xs[g]; i++) {
        x = 66 + 396 * (log10(x_at[g, i]) - x0) / xd
        printf "<text class=\"soft\" x=\"%.1f\" y=\"238\" text-anchor=\"middle\">%s</text>\n", x, \
            with_commas(x_at[g, i])
    }
    for (k = lines[g]; k >= 1; k--) { # the limit and we lie above the peers
        print_line(g, k, 66, 13, 396, 205, x0, xd, y0, yd)
    }
    print "</svg>\n<ul class=\"key\">"
    for (k = 1; k <= lines[g]; k++) {
        printf "<li style=\"--c: var(%s)\">%s</li>", line_colour[g, k], escape(line_name[g, k])
    }
    printf "</ul>\n<details><summary>%s</summary><div class=\"scroll\"><table>\n<tr><th></th>", \
        (g in line_limit ? "Times the limit" : "In time")
    for (i = 1; i <= xs[g]; i++) {
        printf "<th>%s</th>", with_commas(x_at[g, i])
    }
    print "</tr>"
    for (k = 1; k <= lines[g]; k++) {
        who = line_name[g, k]
        printf "<tr class=\"%s\"><td>%s</td>", line_kind[g, who], escape(who)
        for (i = 1; i <= xs[g]; i++) {
            printf "<td>%s</td>", growth_text(g, who, x_at[g, i])
        }
        print "</tr>"
    }
    print "</table></div></details></div>"
}

function growth_text(g, who, x) {
    if (!((g, who, x) in point)) {
        return "-"
    }
    if (!(g in line_limit) || who == line_limit[g]) {
        return time_text(point[g, who, x])
    }
    return figure(growth_ratio(g, who, x))
}

function tick_text(ns) {
    return ns < 1000 ? ns " ns" : ns < 1000000 ? ns / 1000 " µs" : ns / 1000000 " ms"
}

END {
    print_head()
    print_machine()
    for (i = 1; i <= modules; i++) {
        if (module_name[i] in there) {
            print_module(module_name[i])
        }
    }
    print "<h2 id=\"growth\">How cost grows</h2>"
    print "<p class=\"soft\">Both axes are logarithmic. A level line costs the same for one as" \
        " for many; the limit is dashed.</p>\n<div class=\"grid wide\">"
    for (g = 1; g <= growths; g++) {
        if (lines[g] > 0) {
            print_growth(g)
        }
    }
    print "</div>\n<p class=\"soft small\">Made by <code>make bench</code>; the method is" \
        " described in <code>docs/measuring.md</code> and <code>bench/report.h</code>.</p>"
    print "</html>"
}
