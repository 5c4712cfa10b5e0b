# SPDX-License-Identifier: MIT
#
# Draws the contended results of bench_semaphore.json as an SVG picture:
#
#     awk -f bench/plot.awk build/bench_semaphore.json > build/bench_semaphore.svg
#
# and those of bench_weighted_sem.json with -v title='...', in which %s becomes what they are
# relative to, and -v reference='mutex, FIFO of conds' or another contestant.
#
# Any POSIX awk will do, because the JSON has one result to a line. Everything is relative to sem_t
# in the same table: a bar of 2 in the upper panel is twice its throughput, one of 0.5 in the lower
# panel half its CPU time. Without sem_t, the bare compare-and-swap takes its place.

# The value of a key in this line, without quotes; empty if there is none, or null.
function get(key,    at, text) {
    at = index($0, "\"" key "\": ")
    if (at == 0) {
        return ""
    }
    text = substr($0, at + length(key) + 4)
    if (substr(text, 1, 1) == "\"") {
        text = substr(text, 2)
        return substr(text, 1, index(text, "\"") - 1)
    }
    match(text, /^[-+.0-9e]+/)
    return substr(text, 1, RLENGTH)
}

function escape(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}

/^"cpu": / { cpu = get("cpu") }
/^"cpus": / { cpus = get("cpus") }

/"scenario": "contended"/ {
    config = get("config")
    who = get("contestant")
    if (!(config in seen_config)) {
        seen_config[config] = 1
        configs[++config_count] = config
    }
    if (!(who in seen_who)) {
        seen_who[who] = 1
        kind[who] = get("kind")
        # The order of the first table would be that of its results: limits and we, then by name.
        rank = kind[who] == "limit" ? 1 : kind[who] == "ours" ? 2 : 3
        for (i = ++who_count; i > 1; i--) {
            other = whos[i - 1]
            other_rank = kind[other] == "limit" ? 1 : kind[other] == "ours" ? 2 : 3
            if (other_rank < rank || (other_rank == rank && other < who)) {
                break
            }
            whos[i] = other
        }
        whos[i] = who
    }
    op[config, who] = get("op_ns")
    cpu_time[config, who] = get("cpu_ns")
}

function text_at(x, y, anchor, size, text) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", \
        x, y, anchor, size, escape(text)
}

# One panel. Bars are cut off at the top of the scale and then carry their number.
function panel(y, title, top, throughput,    i, k, x, ratio, base, height, fill, step) {
    text_at(left, y - 12, "start", 14, title)
    step = top > 5 ? 2 : 1
    for (i = 0; i <= top; i += step) {
        printf "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", left, \
            width - 20, y + tall - i * tall / top, y + tall - i * tall / top, \
            i == 1 ? "#555" : "#ddd"
        text_at(left - 8, y + tall - i * tall / top + 4, "end", 11, i)
    }
    if (step != 1) {
        printf "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#555\"/>\n", left, \
            width - 20, y + tall - tall / top, y + tall - tall / top
        text_at(left - 8, y + tall - tall / top + 4, "end", 11, 1)
    }
    for (i = 1; i <= config_count; i++) {
        base = throughput ? op[configs[i], reference] : cpu_time[configs[i], reference]
        for (k = 1; k <= who_count; k++) {
            ratio = throughput ? op[configs[i], whos[k]] : cpu_time[configs[i], whos[k]]
            if (ratio + 0 == 0 || base + 0 == 0) {
                continue # it did nothing at all in that time
            }
            ratio = throughput ? base / ratio : ratio / base
            height = (ratio < top ? ratio : top) * tall / top
            x = left + 10 + (i - 1) * group + (k - 1) * bar
            printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\">", \
                x, y + tall - height, bar - 1.5, height, colour[whos[k]]
            printf "<title>%s, %s: %.2f</title></rect>\n", escape(whos[k]), configs[i], ratio
            if (ratio > top) {
                text_at(x + bar / 2, y - 2, "middle", 8, sprintf("%.0f", ratio))
            }
        }
        text_at(left + 10 + (i - 0.5) * group - bar / 2, y + tall + 16, "middle", 12, configs[i])
    }
}

END {
    if (config_count == 0) {
        print "plot.awk: no contended results in the input" > "/dev/stderr"
        exit 1
    }
    if (reference == "") {
        reference = "sem_t" in seen_who ? "sem_t" : "limit: CAS pair"
    }
    if (title == "") {
        title = "Semaphores under contention, relative to %s (T threads, P permits, 50 ns of work)"
    }
    split("#d62728 #ff7f0e #e377c2", our_colour, " ")
    palette_count = split("#4e79a7 #76b7b2 #59a14f #edc948 #b07aa1 #9c755f #79706e #d4a6c8", \
        palette, " ")
    bar = 12
    left = 50
    tall = 220
    group = (who_count + 1.5) * bar
    width = left + 20 + config_count * group + 20
    for (k = 1; k <= who_count; k++) {
        if (kind[whos[k]] == "limit") {
            colour[whos[k]] = ++limits % 2 ? "#d0d0d0" : "#a8a8a8"
        } else if (kind[whos[k]] == "ours") {
            colour[whos[k]] = our_colour[our_count++ % 3 + 1]
        } else {
            colour[whos[k]] = palette[peers++ % palette_count + 1]
        }
    }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", width, 676
    printf "font-family=\"sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
    text_at(left, 24, "start", 16, sprintf(title, reference))
    text_at(left, 42, "start", 11, cpu ", " cpus " CPUs; medians of interleaved repetitions")
    panel(90, "throughput (more is better)", 8, 1)
    panel(380, "CPU time of an operation (less is better)", 3, 0)
    x = left
    y = 641
    for (k = 1; k <= who_count; k++) {
        if (x + 28 + 6.1 * length(whos[k]) > width) {
            x = left
            y += 20
        }
        printf "<rect x=\"%.1f\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, y - 9, \
            colour[whos[k]]
        text_at(x + 14, y, "start", 11, whos[k])
        x += 28 + 6.1 * length(whos[k])
    }
    print "</svg>"
}
