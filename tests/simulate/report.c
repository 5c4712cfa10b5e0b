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

static double height_of(double limit) /* a logarithmic axis from 1 to 1000 */
{
    return PANEL - 70 - log10(limit < 1 ? 1 : limit) / 3 * (PANEL - 100);
}

static void write_axes(FILE *to, const scenario *s, double top)
{
    fprintf(to, "<text x='%d' y='%.0f' class='t'>%s: %s</text>\n", LEFT, top + 8, s->name,
            s->about);
    for (int limit = 1; limit <= 1000; limit *= 10) {
        const double y = top + height_of(limit);
        fprintf(to, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' class='g'/>", LEFT, WIDTH - RIGHT, y,
                y);
        fprintf(to, "<text x='%d' y='%.1f' class='n' text-anchor='end'>%d</text>\n", LEFT - 6,
                y + 4, limit);
    }
    for (int i = 0; i <= 6; i++) {
        const double x = LEFT + i * (WIDTH - LEFT - RIGHT) / 6.0, t = s->seconds * i / 6;
        fprintf(to, "<text x='%.1f' y='%.1f' class='n' text-anchor='middle'>%.0f %s</text>\n", x,
                top + height_of(1) + 18, s->seconds > 600 ? t / 60 : t,
                s->seconds > 600 ? "min" : "s");
    }
}

static void write_curve(FILE *to, const row *r, int which, double top)
{
    const scenario *s = r->s;
    const algorithm *with = limiter(which);
    const int seconds = (int)s->seconds, each = (seconds + 239) / 240;
    fprintf(to, "<polyline fill='none' stroke='%s' stroke-width='%s' points='", with->colour,
            with == &ours ? "3" : "1.3");
    for (int t = 0; t + each <= seconds; t += each) {
        double mean = 0;
        for (int i = 0; i < each; i++) {
            mean += (double)r->limits[which][t + i] / each;
        }
        fprintf(to, "%.1f,%.1f ", LEFT + (t + each / 2.0) / seconds * (WIDTH - LEFT - RIGHT),
                top + height_of(mean));
    }
    fprintf(to, "'/>\n");
}

void write_chart(FILE *to, const row *rows, int count)
{
    static const char *const shown[] = {"an hour", "step"};
    fprintf(
        to,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif'>\n"
        "<style>.t{font-size:15px;font-weight:bold}.n{font-size:12px;fill:#555}.g{stroke:#ddd}</"
        "style>\n"
        "<rect width='100%%' height='100%%' fill='#fff'/>\n"
        "<text x='%d' y='26' style='font-size:18px;font-weight:bold'>What limiters make of it: how "
        "many at once</text>\n",
        WIDTH, TOP + 2 * PANEL, LEFT);
    for (int i = 0; i < 2; i++) {
        const double top = TOP + i * PANEL;
        for (int j = 0; j < count; j++) {
            if (strcmp(rows[j].s->name, shown[i]) == 0) {
                write_axes(to, rows[j].s, top);
                for (int k = LIMITERS - 1; k >= 0; k--) {
                    write_curve(to, &rows[j], k, top);
                }
            }
        }
        for (int k = 0; k < LIMITERS; k++) {
            fprintf(to,
                    "<text x='%d' y='%.0f' style='font-size:13px;font-weight:bold' "
                    "fill='%s'>%s</text>\n",
                    WIDTH - RIGHT + 10, top + 40 + k * 20, limiter(k)->colour, limiter(k)->name);
        }
    }
    fprintf(to, "</svg>\n");
}
