/* SPDX-License-Identifier: MIT
 *
 * The figures of a worker: samples of the last 10 seconds, what Retry-After says, and all of it as
 * JSON for the page and as metrics for Prometheus. On the control thread.
 */
#include "worker_parts.h"

#ifdef __linux__

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include "../../metrics.h"

enum { RETRY_MAX_S = 60 };

/* ---- samples */

static sample take(worker *w)
{
    sample now = {.at_ns = now_ns(),
                  .refused = atomic_load(&w->answers[429]),
                  .answered = atomic_load(&w->answers[200]),
                  .limiter = bulkhead_snapshot(&w->calls)};
    return now;
}

static const sample *oldest(const worker *w)
{
    return &w->samples[w->sample_count < SAMPLES ? 0 : w->sample_count % SAMPLES];
}

/* What has been added since. */
static bulkhead_histogram since(const bulkhead_histogram *then, bulkhead_histogram now)
{
    now.count -= then->count;
    now.sum_ns -= then->sum_ns;
    for (int i = 0; i < BULKHEAD_BUCKETS; i++) {
        now.buckets[i] -= then->buckets[i];
    }
    return now;
}

/* When there will be room for somebody who has been refused, that is, while the queue is full: when
 * all those before him have run. */
static unsigned retry_after_s(const bulkhead_stats *s, const bulkhead_histogram *run)
{
    double mean_s = run->count > 0 ? (double)run->sum_ns / (double)run->count / 1e9 : 0;
    double wait_s = s->permits > 0 ? ((double)s->queue + 1) * mean_s / s->permits : RETRY_MAX_S;
    return wait_s > RETRY_MAX_S ? RETRY_MAX_S : wait_s > 1 ? (unsigned)ceil(wait_s) : 1;
}

static void sampling_is_due(loop_scheduler_timer *timer, int status)
{
    worker *w = timer->arg;
    if (status != 0) {
        return; /* the end */
    }
    sample now = take(w);
    bulkhead_histogram run = since(&oldest(w)->limiter.run, now.limiter.run);
    if (run.count > 0 || now.limiter.permits == 0) { /* else the last estimate stays */
        atomic_store(&w->retry_after_s, retry_after_s(&now.limiter, &run));
    }
    w->samples[w->sample_count++ % SAMPLES] = now;
    call_free_orphans(w);
}

void figures_begin(worker *w)
{
    w->samples[w->sample_count++] = take(w);
    w->sampling.run = sampling_is_due;
    w->sampling.arg = w;
    loop_scheduler_timer_start(server_loop(w->control_server), &w->sampling, w->options.sample_ns,
                               w->options.sample_ns);
}

/* ---- JSON */

typedef struct text {
    char *out;
    size_t size, length;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = t->length < t->size ? t->size - t->length : 0;
    int n = vsnprintf(room > 0 ? t->out + t->length : NULL, room, format, arguments);
    va_end(arguments);
    t->length += n > 0 ? (size_t)n : 0;
}

static void add_limit(text *t, const char *name, uint32_t limit)
{
    if (limit == (uint32_t)BULKHEAD_UNLIMITED) {
        add(t, "\"%s\": null, ", name);
    } else {
        add(t, "\"%s\": %u, ", name, limit);
    }
}

/* Milliseconds, of those that have ended in the last seconds. */
static void add_times(text *t, const char *name, const bulkhead_histogram *h)
{
    add(t, "\"%s_p50_ms\": %.3f, \"%s_p99_ms\": %.3f, ", name,
        (double)bulkhead_histogram_quantile(h, 0.5) / 1e6, name,
        (double)bulkhead_histogram_quantile(h, 0.99) / 1e6);
}

size_t figures_as_json(worker *w, char *out, size_t size)
{
    sample now = take(w);
    const bulkhead_stats *s = &now.limiter;
    const sample *then = oldest(w);
    bulkhead_histogram wait = since(&then->limiter.wait, s->wait);
    bulkhead_histogram run = since(&then->limiter.run, s->run);
    double seconds = (double)(now.at_ns - then->at_ns) / 1e9;
    text t = {.out = out, .size = size};
    add(&t, "{\"single_thread\": %s, ", w->options.single_thread ? "true" : "false");
    add_limit(&t, "permits", s->permits);
    add_limit(&t, "queue", s->queue);
    add(&t, "\"in_use\": %u, \"queued\": %u, ", s->in_use, s->queued);
    add(&t, "\"handlers\": %u, \"handlers_peak\": %u, ", atomic_load(&w->running),
        atomic_load(&w->peak));
    add(&t, "\"answered\": %llu, \"refused\": %llu, ", (unsigned long long)now.answered,
        (unsigned long long)now.refused);
    add(&t, "\"answered_per_second\": %.1f, ",
        seconds > 0 ? (double)(now.answered - then->answered) / seconds : 0);
    add(&t, "\"refused_per_second\": %.1f, ",
        seconds > 0 ? (double)(now.refused - then->refused) / seconds : 0);
    add_times(&t, "wait", &wait);
    add_times(&t, "run", &run);
    add(&t, "\"retry_after_s\": %u, \"ready\": %s}\n", atomic_load(&w->retry_after_s),
        control_is_ready(w, s) ? "true" : "false");
    return t.length;
}

/* ---- metrics */

static size_t add_answers(worker *w, char *out, size_t size, size_t at)
{
    plim_named_value list[32];
    char names[32][12];
    size_t count = 0;
    for (int status = 100; status < STATUSES && count < 32; status++) {
        unsigned long long answers = atomic_load(&w->answers[status]);
        if (answers > 0) {
            snprintf(names[count], sizeof names[count], "%d", status);
            list[count] = (plim_named_value){names[count], (int64_t)answers};
            count++;
        }
    }
    return plim_metrics_counter(out, size, at, "worker_answers_total",
                                "Answers to calls, by status.", list, count);
}

size_t figures_as_metrics(worker *w, char *out, size_t size)
{
    bulkhead_stats calls = bulkhead_snapshot(&w->calls), database = bulkhead_snapshot(&w->database);
    plim_named_bulkhead bulkheads[] = {{"calls", &calls}, {"database", &database}};
    size_t at = plim_metrics_bulkhead(out, size, 0, bulkheads, 2);

    loop_scheduler_stats handlers = {0};
    loop_scheduler_stats io = loop_scheduler_snapshot(server_loop(w->calls_server));
    plim_named_loop_scheduler loops[] = {{"io", &io}, {"handlers", &handlers}};
    if (w->has_loop) {
        handlers = loop_scheduler_snapshot(&w->loop);
    }
    at = plim_metrics_loop_scheduler(out, size, at, loops, w->has_loop ? 2 : 1);

    plim_named_value running = {"calls", atomic_load(&w->running)};
    plim_named_value peak = {"calls", atomic_load(&w->peak)};
    plim_named_value given_up = {"calls", (int64_t)atomic_load(&w->given_up)};
    at = plim_metrics_gauge(out, size, at, "worker_handlers_running",
                            "Handlers that have begun and not ended.", &running, 1);
    at = plim_metrics_gauge(out, size, at, "worker_handlers_peak", "The most there were at once.",
                            &peak, 1);
    at = plim_metrics_counter(out, size, at, "worker_given_up_total",
                              "Handlers whose answer nobody wanted any more.", &given_up, 1);
    return add_answers(w, out, size, at);
}

#endif
