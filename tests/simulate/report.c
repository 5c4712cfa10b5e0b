/* SPDX-License-Identifier: MIT
 *
 * The table of results, and the chart.
 */
#include "simulate.h"

const algorithm *limiter(int which)
{
    return which == 0 ? &ours : &peers[which - 1];
}

/* A table in Markdown: goodput in per cent of the best constant, and p99 as a multiple of its. */
void write_table(FILE *to, const row *rows, int count)
{
    int failures[LIMITERS] = {0};
    fprintf(to, "| scenario | best constant |");
    for (int k = 0; k < LIMITERS; k++) {
        fprintf(to, " %s |", limiter(k)->name);
    }
    fprintf(to, "\n|---|---|");
    for (int k = 0; k < LIMITERS; k++) {
        fprintf(to, "---|");
    }
    for (int i = 0; i < count; i++) {
        const row *r = &rows[i];
        fprintf(to, "\n| %s | %u: %.0f/s, %.0f ms |", r->s->name, r->constant, r->goodput, r->p99);
        for (int k = 0; k < LIMITERS; k++) {
            const verdict *v = &r->verdicts[k];
            const char *mark = v->passes ? "" : "**";
            fprintf(to, " %s%.0f %%, %.1f%s |", mark, v->goodput * 100, v->p99, mark);
            failures[k] += !v->passes;
        }
    }
    fprintf(to, "\n| passed, of %d | |", count);
    for (int k = 0; k < LIMITERS; k++) {
        fprintf(to, " %d |", count - failures[k]);
    }
    fprintf(to, "\n");
}

/* ---- The chart: the limit over time, in two of the scenarios ---- */

enum { WIDTH = 860, PANEL = 300, LEFT = 60, RIGHT = 150, TOP = 60 };

static const char style[] =
    "text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #656d76 }\n"
    ".paper { fill: #ffffff } .head { font-size: 18px } .t { font-size: 15px }\n"
    ".head, .t, .name { font-weight: 600 } .head, .t { fill: #1f2328 } .name { font-size: 13px }\n"
    ".end { text-anchor: end } .middle { text-anchor: middle } .g { stroke: #d8dee4 }\n"
    "polyline { fill: none; stroke-width: 1.3 }\n"
    ".best { stroke: #1f2328; stroke-width: 1.3; stroke-dasharray: 5 4; fill: none }\n"
    ".ours { stroke: #0b6e4f; stroke-width: 3 } .name.ours { fill: #0b6e4f; stroke: none }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #8d96a0 } .paper { fill: #0d1117 } .head, .t { fill: #e6edf3 }\n"
    ".g { stroke: #262d36 } .best { stroke: #e6edf3 }\n"
    ".ours { stroke: #3fd09f } .name.ours { fill: #3fd09f }\n"
    "}\n";

static double height_of(double limit) /* a logarithmic axis from 1 to 1000 */
{
    return PANEL - 70 - log10(limit < 1 ? 1 : limit) / 3 * (PANEL - 100);
}

static double place_of(const scenario *s, double t)
{
    return LEFT + t / s->seconds * (WIDTH - LEFT - RIGHT);
}

static void write_axes(FILE *to, const scenario *s, double top)
{
    fprintf(to, "<text x='%d' y='%.0f' class='t'>%s: %s</text>\n", LEFT, top + 8, s->name,
            s->about);
    for (int limit = 1; limit <= 1000; limit *= 10) {
        const double y = top + height_of(limit);
        fprintf(to, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' class='g'/>", LEFT, WIDTH - RIGHT, y,
                y);
        fprintf(to, "<text x='%d' y='%.1f' class='end'>%d</text>\n", LEFT - 6, y + 4, limit);
    }
    for (int i = 0; i <= 6; i++) {
        const double t = s->seconds * i / 6;
        fprintf(to, "<text x='%.1f' y='%.1f' class='middle'>%.0f %s</text>\n", place_of(s, t),
                top + height_of(1) + 18, s->seconds > 600 ? t / 60 : t,
                s->seconds > 600 ? "min" : "s");
    }
}

/* What the service can do at once. */
static void write_capacity(FILE *to, const scenario *s, double top)
{
    fprintf(to, "<path class='best' d='");
    for (int i = 0; i < PHASES && s->phases[i].rate > 0; i++) {
        const bool last = i + 1 == PHASES || s->phases[i + 1].rate <= 0;
        fprintf(to, "%s%.1f %.1fH%.1f", i == 0 ? "M" : "L", place_of(s, s->phases[i].from),
                top + height_of(s->phases[i].servers),
                place_of(s, last ? s->seconds : s->phases[i + 1].from));
    }
    fprintf(to, "'/>\n");
}

static void write_curve(FILE *to, const row *r, int which, double top)
{
    const scenario *s = r->s;
    const algorithm *with = limiter(which);
    const int seconds = (int)s->seconds, each = (seconds + 239) / 240;
    if (with == &ours) {
        fprintf(to, "<polyline class='ours' points='");
    } else {
        fprintf(to, "<polyline stroke='%s' points='", with->colour);
    }
    for (int t = 0; t + each <= seconds; t += each) {
        double mean = 0;
        for (int i = 0; i < each; i++) {
            mean += (double)r->limits[which][t + i] / each;
        }
        fprintf(to, "%.1f,%.1f ", place_of(s, t + each / 2.0), top + height_of(mean));
    }
    fprintf(to, "'/>\n");
}

static void write_names(FILE *to, double top)
{
    const int x = WIDTH - RIGHT + 10;
    for (int k = 0; k < LIMITERS; k++) {
        const algorithm *with = limiter(k);
        const double y = top + 40 + k * 20;
        if (with == &ours) {
            fprintf(to, "<text x='%d' y='%.0f' class='name ours'>%s</text>\n", x, y, with->name);
        } else {
            fprintf(to, "<text x='%d' y='%.0f' class='name' style='fill: %s'>%s</text>\n", x, y,
                    with->colour, with->name);
        }
    }
    fprintf(to, "<text x='%d' y='%.0f'>dashed: what the</text>", x, top + 40 + LIMITERS * 20);
    fprintf(to, "<text x='%d' y='%.0f'>service does at once</text>\n", x, top + 56 + LIMITERS * 20);
}

void write_chart(FILE *to, const row *rows, int count)
{
    static const char *const shown[] = {"an hour", "step"};
    fprintf(to, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d'>\n", WIDTH,
            TOP + 2 * PANEL, WIDTH);
    fprintf(to, "<title>Limits found by measuring</title>\n<style>\n%s</style>\n", style);
    fprintf(to, "<rect class='paper' width='100%%' height='100%%'/>\n");
    fprintf(to, "<text x='%d' y='28' class='head'>How many at once: the limit over time</text>\n",
            LEFT);
    for (int i = 0; i < 2; i++) {
        const double top = TOP + i * PANEL;
        for (int j = 0; j < count; j++) {
            if (strcmp(rows[j].s->name, shown[i]) == 0) {
                write_axes(to, rows[j].s, top);
                for (int k = LIMITERS - 1; k >= 0; k--) {
                    write_curve(to, &rows[j], k, top);
                }
                write_capacity(to, rows[j].s, top);
            }
        }
        write_names(to, top);
    }
    fprintf(to, "</svg>\n");
}
