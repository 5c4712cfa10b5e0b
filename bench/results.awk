# SPDX-License-Identifier: MIT
#
# Reads what the benchmarks have written as JSON, for summary.awk or html.awk, which come after it:
#
#     awk -f bench/results.awk -f bench/summary.awk build/bench_*.json
#
# Any POSIX awk will do, because the JSON has one result to a line. Which results make a column of a
# module's table, and which make a picture of how cost grows, is said here, and nowhere else.

# A column: its heading, scenario and configuration (a regular expression), and what is measured.
function column(module, heading, which, metric) {
    columns[module]++
    head[module, columns[module]] = heading
    column_of[module, columns[module]] = which
    column_metric[module, columns[module]] = metric
}

# Growth: by what, and where that number stands: in a key of the result, or in the label.
function growth(module, title, by, where, which, metric) {
    growths++
    growth_module[growths] = module
    growth_title[growths] = title
    growth_by[growths] = by
    growth_where[growths] = where
    growth_of[growths] = which
    growth_metric[growths] = metric
}

BEGIN {
    modules = split("semaphore weighted_sem bulkhead loop_scheduler adaptive_limit", module_name, " ")

    column("semaphore", "1 thread", "^uncontended:", "pair_ns")
    column("semaphore", "T=2 P=1", "^contended:T=2 P=1$", "op_ns")
    column("semaphore", "T=8 P=1", "^contended:T=8 P=1$", "op_ns")
    column("semaphore", "T=8 P=4", "^contended:T=8 P=4$", "op_ns")
    column("semaphore", "T=64 P=1", "^contended:T=64 P=1$", "op_ns")
    column("semaphore", "T=64 P=32", "^contended:T=64 P=32$", "op_ns")
    column("semaphore", "hand-over", "^pingpong:two CPUs$", "handoff_ns")

    column("weighted_sem", "1 thread", "^uncontended:", "pair_ns")
    column("weighted_sem", "start 8", "^start:total 8$", "op_ns")
    column("weighted_sem", "start 64", "^start:total 64$", "op_ns")
    column("weighted_sem", "T=4 of 16", "^contended:T=4 of 16$", "op_ns")
    column("weighted_sem", "T=4 of 8", "^contended:T=4 of 8$", "op_ns")
    column("weighted_sem", "16 wait", "^handover:.*not pinned$", "few_ns")
    column("weighted_sem", "many wait", "^handover:.*not pinned$", "many_ns")

    column("bulkhead", "permit", "^permit:", "pair_ns")
    column("bulkhead", "refusal", "^refusal:", "refusal_ns")
    column("bulkhead", "P=1 W=2", "^throughput:P=1 W=2$", "job_ns")
    column("bulkhead", "P=1 W=4", "^throughput:P=1 W=4$", "job_ns")
    column("bulkhead", "P=2 W=2", "^throughput:P=2 W=2$", "job_ns")
    column("bulkhead", "P=2 W=4", "^throughput:P=2 W=4$", "job_ns")
    column("bulkhead", "trip", "^roundtrip:P=1 W=2$", "trip_ns")
    column("bulkhead", "8 at once", "^inflight:8 jobs, W=4$", "job_ns")
    column("bulkhead", "1 us", "^bodies:1 us$", "job_ns")
    column("bulkhead", "kinds", "^kinds:", "job_ns")
    column("bulkhead", "places", "^placement:", "job_ns")

    column("loop_scheduler", "post", "^awake:", "post_ns")
    column("loop_scheduler", "P=1", "^throughput:P=1", "task_ns")
    column("loop_scheduler", "P=8", "^throughput:P=8$", "task_ns")
    column("loop_scheduler", "wake", "^wakeup:one CPU$", "p50_ns")
    column("loop_scheduler", "call", "^call:", "call_ns")
    column("loop_scheduler", "start", "^timers:100000 of them$", "insert_ns")
    column("loop_scheduler", "cancel", "^timers:100000 of them$", "cancel_ns")
    column("loop_scheduler", "fire", "^timers:100000 of them$", "fire_ns")

    column("adaptive_limit", "1 thread", "^uncontended:", "sample_ns")
    column("adaptive_limit", "T=2", "^contended:T=2$", "op_ns")
    column("adaptive_limit", "T=8", "^contended:T=8$", "op_ns")

    legend["semaphore"] = "T threads, P permits, 50 ns of work; hand-over on two CPUs"
    legend["weighted_sem"] = "start of an empty job, of 8 and of 64; T=4 threads, weights 1 to 8;" \
        " hand-over while some wait"
    legend["bulkhead"] = "P producers, W workers, empty jobs; one job submitted and waited for;" \
        " 8 in flight, W=4; bodies of 1 us; jobs that ask for more; jobs scattered over 64 MB"
    legend["loop_scheduler"] = "a post; P producers; wake-up on one CPU; a call; 100,000 timers"
    legend["adaptive_limit"] = "a sample; T threads, 50 ns of work"

    growth("semaphore", "csem, one permit", "threads", "threads", "^contended:T=[0-9]* P=1$", \
        "op_ns")
    growth("semaphore", "csem, half as many permits as threads", "threads", "threads", \
        "^contended:T=(2 P=1|4 P=2|8 P=4|16 P=8|32 P=16|64 P=32)$", "op_ns")
    growth("semaphore", "csem, hand-over on one CPU", "threads that wait", "threads", "^waiters:", \
        "handover_ns")
    growth("weighted_sem", "weighted_sem, hand-over on one CPU", "threads that wait", "threads", \
        "^waiters:", "handover_ns")
    growth("bulkhead", "bulkhead, an empty job on 2 workers", "producers", "", "^producers:", "job_ns")
    growth("bulkhead", "bulkhead, an empty job on 2 workers, few in flight", "jobs in flight", \
        "config", "^inflight:.* W=2$", "job_ns")
    growth("bulkhead", "bulkhead, an empty job on 8 workers, few in flight", "jobs in flight", \
        "config", "^inflight:.* W=8$", "job_ns")
    growth("bulkhead", "bulkhead, submit and cancel of the newest", "jobs in the queue", "", \
        "^depth:", "newest_ns")
    growth("bulkhead", "bulkhead, cancel and submit of any", "jobs in the queue", "", "^depth:", \
        "random_ns")
    growth("loop_scheduler", "loop_scheduler, a post", "tasks in the queue", "size", "^depth:", \
        "post_ns")
    growth("loop_scheduler", "loop_scheduler, start of a timer", "timers", "size", "^timers:", \
        "insert_ns")
    growth("loop_scheduler", "loop_scheduler, cancel of a timer", "timers", "size", "^timers:", \
        "cancel_ns")
    growth("loop_scheduler", "loop_scheduler, call of a timer that is due", "timers", "size", \
        "^timers:", "fire_ns")
}

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
    if (!match(text, /^[-+.0-9e]+/)) {
        return ""
    }
    return substr(text, 1, RLENGTH)
}

function fact(key) {
    if (index($0, "\"" key "\": ") == 1) {
        about[module, key] = get(key)
    }
}

/^"program": / {
    module = substr(get("program"), length("bench_") + 1)
    there[module] = 1
}

/^"/ {
    split("date seconds others stolen cpu cpus kernel compiler flags reps ms", facts, " ")
    for (i in facts) {
        fact(facts[i])
    }
}

/^"skipped": / {
    text = substr($0, index($0, "[") + 1)
    while (match(text, /"[^"]*"/)) {
        missing[module, ++missings[module]] = substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
    }
}

/^\{"scenario": / {
    who = get("contestant")
    kind = get("kind")
    key = get("scenario") ":" get("config")
    for (c = 1; c <= columns[module]; c++) {
        if (key ~ column_of[module, c]) {
            take_cell(module, c, who, kind, get(column_metric[module, c]), \
                get(column_metric[module, c] "_to_limit"))
        }
    }
    for (g = 1; g <= growths; g++) {
        if (growth_module[g] == module && key ~ growth_of[g]) {
            take_point(g, who, kind, get(growth_metric[g]), get(growth_metric[g] "_to_limit"))
        }
    }
}

# Several limits may stand in a table; one of them counts.
function take_cell(m, c, who, kind, ns, to_limit) {
    if (kind == "limit" && who == get("limit")) {
        limit_ns[m, c] = ns
        limit_name[m, c] = who
    } else if (kind != "limit" && to_limit != "") {
        if (!((m, who) in row_kind)) {
            row_kind[m, who] = kind
            row_name[m, ++rows[m]] = who
        }
        cell[m, c, who] = to_limit
    }
}

function take_point(g, who, kind, ns, to_limit,    x) {
    if (growth_where[g] != "") {
        x = get(growth_where[g])
        if (kind == "limit" && who != get("limit")) {
            return
        }
    } else { # a row is a size, and relative to another size
        match(who, /[0-9]+/)
        x = substr(who, RSTART, RLENGTH)
        if (kind == "ours" || !sub(/, [0-9]+$/, "", who)) {
            who = growth_module[g]
        }
    }
    if (ns == "") {
        return
    }
    x += 0
    if (!((g, "x", x) in seen)) {
        seen[g, "x", x] = 1
        for (i = ++xs[g]; i > 1 && x_at[g, i - 1] > x; i--) {
            x_at[g, i] = x_at[g, i - 1]
        }
        x_at[g, i] = x
    }
    if (!((g, who) in line_kind)) {
        line_kind[g, who] = kind
        line_name[g, ++lines[g]] = who
    }
    if (kind == "limit") {
        line_limit[g] = who
    }
    point[g, who, x] = ns
    point_ratio[g, who, x] = to_limit
}

# A point as a ratio to the limit there; empty if there is none.
function growth_ratio(g, who, x) {
    if (growth_where[g] != "") {
        return point_ratio[g, who, x]
    }
    if (!(g in line_limit) || !((g, who, x) in point)) {
        return ""
    }
    return point[g, who, x] / point[g, line_limit[g], x]
}

/^\{"bar": / {
    b = ++bars[module]
    bar_text[module, b] = get("bar")
    bar_reached[module, b] = get("reached")
    bar_aim[module, b] = get("aim")
    bar_met[module, b] = index($0, "\"met\": true") > 0
    met[module] += bar_met[module, b]
}

# Three figures.
function figure(x) {
    if (x == "") {
        return "-"
    }
    x += 0
    return sprintf(x > 0 && x < 0.0995 ? "%.3f" : x < 9.995 ? "%.2f" : x < 99.95 ? "%.1f" \
        : "%.0f", x)
}

function with_commas(n,    text) {
    for (text = ""; length(n) > 3; n = substr(n, 1, length(n) - 3)) {
        text = "," substr(n, length(n) - 2) text
    }
    return n text
}
