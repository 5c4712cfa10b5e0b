/* SPDX-License-Identifier: MIT
 *
 * What metrics.h promises, claim by claim. It is first included alone, and again when there is
 * something to write about.
 */
#undef NDEBUG
#include "../../metrics.h"
#include "../../semaphore.h"
#include "../../weighted_sem.h"
#include "../../metrics.h"
#include "../../bulkhead.h"
#include "../../loop_scheduler.h"
#include "../../metrics.h"
#include "../support.h"
#include "../greatest.h"

#include <string.h>

#include "pages.h"

enum { ROOM = 65536 };
static char text[ROOM], wanted[ROOM];

/* ---- exact texts ---- */

TEST a_gauge_of_ones_own_is_written(void)
{
    plim_named_value list[] = {{"a", 7}, {"b", INT64_MIN}, {"c", INT64_MAX}, {"d", 0}, {"e", -1}};
    const char *expected = "# HELP temperature How warm it is.\n"
                           "# TYPE temperature gauge\n"
                           "temperature{name=\"a\"} 7\n"
                           "temperature{name=\"b\"} -9223372036854775808\n"
                           "temperature{name=\"c\"} 9223372036854775807\n"
                           "temperature{name=\"d\"} 0\n"
                           "temperature{name=\"e\"} -1\n";
    ASSERT_EQ(strlen(expected),
              plim_metrics_gauge(text, ROOM, 0, "temperature", "How warm it is.", list, 5));
    ASSERT_STR_EQ(expected, text);
    PASS();
}

TEST a_counter_of_ones_own_is_written(void)
{
    plim_named_value list[] = {{"a", 10}};
    plim_metrics_counter(text, ROOM, 0, "orders_total", "Orders.", list, 1);
    ASSERT_STR_EQ("# HELP orders_total Orders.\n"
                  "# TYPE orders_total counter\n"
                  "orders_total{name=\"a\"} 10\n",
                  text);
    PASS();
}

TEST semaphores_are_written(void)
{
    csem slots;
    ASSERT_INT(0, csem_init(&slots, 3));
    ASSERT_INT(0, csem_reduce(&slots, 5));
    plim_named_csem list[] = {{"slots", csem_available(&slots), csem_waiters(&slots)},
                              {"other", 1073741823, 12}};
    plim_metrics_csem(text, ROOM, 0, list, 2);
    ASSERT_STR_EQ("# HELP csem_available Permits that are free now; negative is debt.\n"
                  "# TYPE csem_available gauge\n"
                  "csem_available{name=\"slots\"} -2\n"
                  "csem_available{name=\"other\"} 1073741823\n"
                  "# HELP csem_waiters Threads that wait for a permit now.\n"
                  "# TYPE csem_waiters gauge\n"
                  "csem_waiters{name=\"slots\"} 0\n"
                  "csem_waiters{name=\"other\"} 12\n",
                  text);
    PASS();
}

TEST weighted_semaphores_are_written(void)
{
    weighted_sem_stats s = {.total = 68719476735,
                            .available = 2,
                            .executing = 3,
                            .waiting = 4,
                            .errors = 5,
                            .errors_dropped = 6,
                            .started = 7,
                            .completed = UINT64_MAX,
                            .failed = 9};
    plim_named_weighted_sem list[] = {{"gpu", &s}};
    plim_metrics_weighted_sem(text, ROOM, 0, list, 1);
    ASSERT_STR_EQ(
        "# HELP weighted_sem_weight_limit Total weight that may execute at once.\n"
        "# TYPE weighted_sem_weight_limit gauge\n"
        "weighted_sem_weight_limit{name=\"gpu\"} 68719476735\n"
        "# HELP weighted_sem_weight_available Weight that is free now.\n"
        "# TYPE weighted_sem_weight_available gauge\n"
        "weighted_sem_weight_available{name=\"gpu\"} 2\n"
        "# HELP weighted_sem_executing Jobs that have started and not ended.\n"
        "# TYPE weighted_sem_executing gauge\n"
        "weighted_sem_executing{name=\"gpu\"} 3\n"
        "# HELP weighted_sem_waiting Callers that wait for weight now.\n"
        "# TYPE weighted_sem_waiting gauge\n"
        "weighted_sem_waiting{name=\"gpu\"} 4\n"
        "# HELP weighted_sem_errors_stored Errors that nobody has extracted yet.\n"
        "# TYPE weighted_sem_errors_stored gauge\n"
        "weighted_sem_errors_stored{name=\"gpu\"} 5\n"
        "# HELP weighted_sem_errors_dropped_total Errors lost because the store was full.\n"
        "# TYPE weighted_sem_errors_dropped_total counter\n"
        "weighted_sem_errors_dropped_total{name=\"gpu\"} 6\n"
        "# HELP weighted_sem_started_total Jobs that started.\n"
        "# TYPE weighted_sem_started_total counter\n"
        "weighted_sem_started_total{name=\"gpu\"} 7\n"
        "# HELP weighted_sem_completed_total Jobs that ended, failed ones included.\n"
        "# TYPE weighted_sem_completed_total counter\n"
        "weighted_sem_completed_total{name=\"gpu\"} 18446744073709551615\n"
        "# HELP weighted_sem_failed_total Jobs that ended with an error.\n"
        "# TYPE weighted_sem_failed_total counter\n"
        "weighted_sem_failed_total{name=\"gpu\"} 9\n",
        text);
    PASS();
}

/* What a text is to be, put together in another way: the samples of two objects, a and b. */
typedef struct expectation {
    const char *name, *type, *help, *a, *b;
} expectation;

static size_t expect(size_t at, const char *prefix, const expectation *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(wanted + at, ROOM - at,
                               "# HELP %s%s %s\n# TYPE %s%s %s\n%s%s{name=\"a\"} %s\n"
                               "%s%s{name=\"b\"} %s\n",
                               prefix, e[i].name, e[i].help, prefix, e[i].name, e[i].type, prefix,
                               e[i].name, e[i].a, prefix, e[i].name, e[i].b);
    }
    return at;
}

TEST event_loops_are_written(void)
{
    static const expectation expected[] = {
        {"queued", "gauge", "Tasks that wait to run now.", "1", "0"},
        {"peak_queued", "gauge", "The most that waited, as seen once a turn.", "2", "0"},
        {"timers", "gauge", "Timers that are armed now.", "3", "0"},
        {"offloaded", "gauge", "Works that have not come back yet.", "4", "0"},
        {"suspended", "gauge", "Coroutines that await an event now.", "4294967295", "0"},
        {"longest_task_seconds", "gauge", "The longest task so far.", "0.000000001", "0.000000000"},
        {"posted_total", "counter", "Tasks accepted.", "6", "0"},
        {"ran_total", "counter", "Tasks that ran.", "7", "0"},
        {"cancelled_total", "counter", "Tasks that were cancelled.", "8", "0"},
        {"rejected_total", "counter", "Posts and calls refused.", "9", "0"},
        {"timers_fired_total", "counter", "Calls of timers.", "10", "0"},
        {"wakes_total", "counter", "Wake-ups that other threads issued.", "11", "0"},
        {"sleeps_total", "counter", "How often the loop slept.", "12", "0"},
        {"busy_seconds_total", "counter", "Time in which the loop ran and did not sleep.",
         "9223372036.854775807", "0.000000000"},
        {"idle_seconds_total", "counter", "Time in which the loop slept.", "1.020304050",
         "-0.000000001"},
    };
    loop_scheduler_stats a = {.queued = 1,
                              .peak_queued = 2,
                              .timers = 3,
                              .offloaded = 4,
                              .suspended = UINT32_MAX,
                              .longest_ns = 1,
                              .posted = 6,
                              .ran = 7,
                              .cancelled = 8,
                              .rejected = 9,
                              .fired = 10,
                              .wakes = 11,
                              .sleeps = 12,
                              .busy_ns = INT64_MAX,
                              .idle_ns = 1020304050};
    loop_scheduler_stats b = {.idle_ns = -1};
    plim_named_loop_scheduler list[] = {{"a", &a}, {"b", &b}};
    size_t length = expect(0, "loop_scheduler_", expected, sizeof expected / sizeof expected[0]);
    ASSERT_EQ(length, plim_metrics_loop_scheduler(text, ROOM, 0, list, 2));
    ASSERT_STR_EQ(wanted, text);
    PASS();
}

/* Of n times, all in the bucket that ends at 2^bits - 1 or below. */
static size_t expect_histogram(size_t at, const char *name, const char *object, int bits,
                               uint64_t n, const char *sum)
{
    for (int power = 10; power <= 36; power += 2) { /* a microsecond to a minute */
        int64_t end = ((int64_t)1 << power) - 1;
        at += (size_t)snprintf(
            wanted + at, ROOM - at,
            "%s_bucket{name=\"%s\",le=\"%" PRId64 ".%09" PRId64 "\"} %" PRIu64 "\n", name, object,
            end / 1000000000, end % 1000000000, power >= bits ? n : 0);
    }
    at += (size_t)snprintf(wanted + at, ROOM - at,
                           "%s_bucket{name=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
                           "%s_sum{name=\"%s\"} %s\n%s_count{name=\"%s\"} %" PRIu64 "\n",
                           name, object, n, name, object, sum, name, object, n);
    return at;
}

TEST bulkheads_are_written(void)
{
    static const expectation expected[] = {
        {"permits", "gauge", "How many may run at once.", "4", "+Inf"},
        {"queue_limit", "gauge", "How many may wait.", "16", "0"},
        {"in_use", "gauge", "Permits that are held now.", "3", "0"},
        {"available", "gauge", "Permits that are free now.", "1", "+Inf"},
        {"queued", "gauge", "Jobs and callers that wait for a permit now.", "2", "0"},
        {"delayed", "gauge", "Jobs that wait for their time now, retries included.", "5", "0"},
        {"peak_in_use", "gauge", "The most permits that were held at once.", "9", "0"},
        {"peak_queued", "gauge", "The most that waited at once.", "10", "0"},
        {"workers", "gauge", "Threads that run jobs.", "6", "0"},
        {"workers_idle", "gauge", "Workers without a job.", "7", "0"},
        {"workers_stuck", "gauge", "Threads in a body whose run timeout has passed.", "8", "0"},
        {"longest_wait_seconds", "gauge", "How long the first in the queue has waited so far.",
         "1.020304050", "0.000000000"},
        {"accepted_total", "counter", "Jobs accepted, and calls let in if they are counted.", "100",
         "0"},
        {"rejected_total", "counter", "Jobs and calls not let in, at once or after waiting.",
         "18446744073709551615", "0"},
        {"succeeded_total", "counter", "Jobs that succeeded, and calls if they are counted.", "90",
         "0"},
        {"failed_total", "counter", "Jobs that failed, and calls if they are counted.", "1", "0"},
        {"timed_out_total", "counter", "Jobs whose run timeout passed.", "2", "0"},
        {"expired_total", "counter", "Jobs that did not begin in time.", "3", "0"},
        {"cancelled_total", "counter", "Jobs that were cancelled while they did not run.", "4",
         "0"},
        {"aborted_total", "counter",
         "Jobs that ended without a run because of a close or a refusal.", "5", "0"},
        {"retried_total", "counter", "Attempts after a first.", "11", "0"},
        {"late_total", "counter", "Bodies that returned after their run timeout.", "12", "0"},
    };
    static bulkhead_stats a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.permits = 4;
    a.queue = 16;
    a.in_use = 3;
    a.available = 1;
    a.queued = 2;
    a.delayed = 5;
    a.peak_in_use = 9;
    a.peak_queued = 10;
    a.workers = 6;
    a.workers_idle = 7;
    a.workers_stuck = 8;
    a.longest_wait_ns = INT64_C(1020304050);
    a.accepted = 100;
    a.rejected = UINT64_MAX;
    a.succeeded = 90;
    a.failed = 1;
    a.timed_out = 2;
    a.expired = 3;
    a.cancelled = 4;
    a.aborted = 5;
    a.retried = 11;
    a.late = 12;
    a.wait.buckets[0] = a.wait.count = 3; /* of no time at all */
    a.run.sum_ns = INT64_C(12345678901234567);
    b.permits = BULKHEAD_UNLIMITED;
    b.queue = (uint32_t)PLIM_NONE;
    b.available = 12345678;
    bulkhead_histogram_add(&b.run, PLIM_S(1000));
    size_t at = expect(0, "bulkhead_", expected, sizeof expected / sizeof expected[0]);
    at += (size_t)snprintf(wanted + at, ROOM - at,
                           "# HELP bulkhead_wait_seconds How long jobs waited to begin, and "
                           "callers to be let in.\n# TYPE bulkhead_wait_seconds histogram\n");
    at = expect_histogram(at, "bulkhead_wait_seconds", "a", 0, 3, "0.000000000");
    at = expect_histogram(at, "bulkhead_wait_seconds", "b", 0, 0, "0.000000000");
    at += (size_t)snprintf(wanted + at, ROOM - at,
                           "# HELP bulkhead_run_seconds How long each attempt ran.\n"
                           "# TYPE bulkhead_run_seconds histogram\n");
    at = expect_histogram(at, "bulkhead_run_seconds", "a", 0, 0, "12345678.901234567");
    at = expect_histogram(at, "bulkhead_run_seconds", "b", 99, 1, "1000.000000000");
    plim_named_bulkhead list[] = {{"a", &a}, {"b", &b}};
    ASSERT_EQ(at, plim_metrics_bulkhead(text, ROOM, 0, list, 2));
    ASSERT_STR_EQ(wanted, text);
    PASS();
}

TEST a_histogram_of_ones_own_is_written(void)
{
    bulkhead_histogram empty, one;
    memset(&empty, 0, sizeof empty);
    memset(&one, 0, sizeof one);
    bulkhead_histogram_add(&one, 1023);
    bulkhead_histogram_add(&one, 1);
    plim_named_histogram list[] = {{"x", &empty}, {"y", &one}};
    size_t at = (size_t)snprintf(wanted, ROOM,
                                 "# HELP query_seconds Queries.\n"
                                 "# TYPE query_seconds histogram\n");
    at = expect_histogram(at, "query_seconds", "x", 0, 0, "0.000000000");
    at = expect_histogram(at, "query_seconds", "y", 10, 2, "0.000001024");
    ASSERT_EQ(at, plim_metrics_histogram(text, ROOM, 0, "query_seconds", "Queries.", list, 2));
    ASSERT_STR_EQ(wanted, text);
    PASS();
}

/* ---- limits ---- */

/* The limit and the room of what a bulkhead of these options says. */
static bool limits_are(int32_t permits, int32_t queue, const char *samples)
{
    bulkhead b;
    bulkhead_options options = {.permits = permits, .queue = queue};
    if (bulkhead_init(&b, &options) != 0) {
        return false;
    }
    bulkhead_stats s = bulkhead_snapshot(&b);
    plim_named_bulkhead list[] = {{"b", &s}};
    plim_metrics_bulkhead(text, ROOM, 0, list, 1);
    char *to = wanted;
    const char *names[] = {"\nbulkhead_permits{name=\"b\"} ", "\nbulkhead_queue_limit{name=\"b\"} ",
                           "\nbulkhead_available{name=\"b\"} "};
    for (int i = 0; i < 3; i++) {
        const char *value = strstr(text, names[i]) + strlen(names[i]);
        to += sprintf(to, "%.*s ", (int)strcspn(value, "\n"), value);
    }
    return strcmp(wanted, samples) == 0 && bulkhead_close(&b, BULKHEAD_ABORT, PLIM_FOREVER) == 0 &&
           bulkhead_destroy(&b) == 0;
}

TEST unlimited_is_infinite_and_none_is_zero(void)
{
    ASSERT(limits_are(4, 16, "4 16 4 "));
    ASSERT(limits_are(BULKHEAD_UNLIMITED, BULKHEAD_UNLIMITED, "+Inf +Inf +Inf "));
    ASSERT(limits_are(0, 0, "1 +Inf 1 "));
    ASSERT(limits_are(PLIM_NONE, PLIM_NONE, "0 0 0 "));
    PASS();
}

/* ---- names ---- */

TEST names_are_escaped(void)
{
    plim_named_csem list[] = {{"a\"b\\c\nd{}=,\xc3\xa9", 1, 0}, {"", 2, 0}, {NULL, 3, 0}};
    plim_metrics_csem(text, ROOM, 0, list, 3);
    ASSERT(strstr(text, "\ncsem_available{name=\"a\\\"b\\\\c\\nd{}=,\xc3\xa9\"} 1\n") != NULL);
    ASSERT(strstr(text, "\ncsem_available{name=\"\"} 2\n") != NULL);
    ASSERT(strstr(text, "\ncsem_available{name=\"\"} 3\n") != NULL);
    PASS();
}

TEST help_is_escaped(void)
{
    plim_named_value list[] = {{"x", 1}};
    plim_metrics_gauge(text, ROOM, 0, "m", "a \"b\" \\ c\nd", list, 1);
    ASSERT_STR_EQ("# HELP m a \"b\" \\\\ c\\nd\n# TYPE m gauge\nm{name=\"x\"} 1\n", text);
    PASS();
}

/* ---- room ---- */

TEST a_text_is_cut_anywhere_like_snprintf(void)
{
    size_t length = write_page(NULL, 0);
    ASSERT(length > 1000 && length < ROOM);
    ASSERT_EQ(length, write_page(wanted, length + 1));
    ASSERT_EQ(length, strlen(wanted));
    ASSERT_EQ('\n', wanted[length - 1]);
    /* Everywhere at both ends. In between one function writes all, character by character; its places
     * are sampled. */
    size_t step = (size_t)(13 * SLOWER * factor("TEST_SCALE"));
    for (size_t capacity = 1; capacity <= length + 2;
         capacity += capacity < 500 || capacity + 100 > length ? 1 : step) {
        size_t fits = capacity <= length ? capacity - 1 : length;
        memset(text, '#', length + 4);
        ASSERT_EQ(length, write_page(text, capacity));
        ASSERT_EQ(fits, strlen(text));
        ASSERT(memcmp(wanted, text, fits) == 0);
        ASSERT_EQ('#', text[capacity]);
    }
    PASS();
}

TEST lists_of_nothing_are_empty_blocks(void)
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        memset(text, '#', 8);
        ASSERT_EQ(0u, plim_metrics_gauge(text, capacity, 0, "m", "h", NULL, 0));
        ASSERT_EQ(0u, plim_metrics_counter(text, capacity, 0, "m", "h", NULL, 0));
        ASSERT_EQ(0u, plim_metrics_histogram(text, capacity, 0, "m", "h", NULL, 0));
        ASSERT_EQ(0u, plim_metrics_csem(text, capacity, 0, NULL, 0));
        ASSERT_EQ(0u, plim_metrics_weighted_sem(text, capacity, 0, NULL, 0));
        ASSERT_EQ(0u, plim_metrics_bulkhead(text, capacity, 0, NULL, 0));
        ASSERT_EQ(0u, plim_metrics_loop_scheduler(text, capacity, 0, NULL, 0));
        ASSERT_EQ(capacity == 0 ? '#' : 0, text[0]);
        ASSERT_EQ('#', text[1]);
    }
    plim_named_value list[] = {{"x", 1}};
    size_t length = plim_metrics_gauge(text, ROOM, 0, "m", "h", list, 1);
    ASSERT_EQ(length, plim_metrics_csem(text, ROOM, length, NULL, 0));
    ASSERT_EQ(length, strlen(text));
    PASS();
}

/* ---- histograms ---- */

/* Bounds and counts of name's buckets grow, and the last ones are infinite, and the count. */
static bool adds_up(const char *page, const char *metric, uint64_t count)
{
    char bucket[100], of_count[100];
    snprintf(bucket, sizeof bucket, "\n%s_bucket{name=\"h\",le=\"", metric);
    snprintf(of_count, sizeof of_count, "\n%s_count{name=\"h\"} ", metric);
    double bound = -1;
    uint64_t seen = 0;
    bool infinite = false;
    for (const char *at = page; (at = strstr(at, bucket)) != NULL;) {
        at += strlen(bucket);
        if (infinite || strstr(at, "\"} ") == NULL) {
            return false; /* +Inf comes last */
        }
        infinite = *at == '+';
        double next = infinite ? 1e99 : strtod(at, NULL);
        uint64_t n = strtoull(strstr(at, "\"} ") + 3, NULL, 10);
        if (next <= bound || n < seen) {
            return false;
        }
        bound = next;
        seen = n;
    }
    const char *last = strstr(page, of_count);
    return infinite && seen == count && last != NULL &&
           strtoull(last + strlen(of_count), NULL, 10) == count;
}

TEST histograms_add_up(void)
{
    bulkhead_histogram h;
    memset(&h, 0, sizeof h);
    plim_named_histogram list[] = {{"h", &h}};
    uint64_t count = 0, dice = 1;
    int64_t sum = 0;
    for (int i = 0; i < 2000; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        int64_t ns = (int64_t)(dice >> (dice >> 58)) & INT64_MAX;
        ns >>= 11; /* so that the sum stays in range */
        bulkhead_histogram_add(&h, ns);
        sum += ns;
        count++;
    }
    plim_metrics_histogram(text, ROOM, 0, "m_seconds", "h", list, 1);
    ASSERT(adds_up(text, "m_seconds", count));
    char line[100];
    snprintf(line, sizeof line, "\nm_seconds_sum{name=\"h\"} %" PRId64 ".%09" PRId64 "\n",
             sum / 1000000000, sum % 1000000000);
    ASSERT(strstr(text, line) != NULL);
    PASS();
}

TEST a_histogram_whose_count_is_wrong_is_still_valid(void)
{
    bulkhead_histogram h;
    memset(&h, 0, sizeof h);
    plim_named_histogram list[] = {{"h", &h}};
    bulkhead_histogram_add(&h, PLIM_MS(1));
    h.count = 77;
    plim_metrics_histogram(text, ROOM, 0, "m_seconds", "h", list, 1);
    ASSERT(adds_up(text, "m_seconds", 1));
    PASS();
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST a_bulkhead_that_works_has_figures_that_add_up(void)
{
    bulkhead b;
    bulkhead_options options = {.type = BULKHEAD_ASYNC, .flags = BULKHEAD_TIMINGS};
    ASSERT_INT(0, bulkhead_init(&b, &options));
    for (int i = 0; i < 20; i++) {
        ASSERT_INT(0, bulkhead_invoke(&b, nothing, NULL, NULL));
    }
    bulkhead_stats s = bulkhead_snapshot(&b);
    plim_named_bulkhead list[] = {{"h", &s}};
    ASSERT(plim_metrics_bulkhead(text, ROOM, 0, list, 1) < ROOM);
    ASSERT(adds_up(text, "bulkhead_run_seconds", 20));
    ASSERT(adds_up(text, "bulkhead_wait_seconds", 20));
    ASSERT(strstr(text, "\nbulkhead_succeeded_total{name=\"h\"} 20\n") != NULL);
    ASSERT_INT(0, bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER));
    ASSERT_INT(0, bulkhead_destroy(&b));
    PASS();
}

/* ---- pages ---- */

/* Whether a page is what a strict reader takes: each metric has one HELP and one TYPE line, and
 * then all of its samples, no two for the same series; the names say what it is. */
static const char *fault_of(const char *page)
{
    static char metric[100], described[4096], series[ROOM];
    char type[16] = "", key[300];
    size_t samples = 1;
    described[0] = series[0] = metric[0] = 0;
    strcat(described, "\n");
    strcat(series, "\n");
    for (const char *line = page; *line != 0;) {
        const char *end = strchr(line, '\n');
        if (end == NULL) {
            return "a line without an end";
        }
        if (strncmp(line, "# HELP ", 7) == 0) {
            size_t n = strcspn(line + 7, " \n");
            if (samples == 0) {
                return "a metric without samples";
            }
            snprintf(metric, sizeof metric, "%.*s", (int)n, line + 7);
            snprintf(key, sizeof key, "\n%s\n", metric);
            if (strstr(described, key) != NULL) {
                return "described twice";
            }
            strcat(described, key + 1);
            if (line[7 + n] != ' ' || line + 7 + n + 1 == end) {
                return "no help";
            }
            size_t m = strlen(metric);
            if (strncmp(end + 1, "# TYPE ", 7) != 0 || strncmp(end + 8, metric, m) != 0 ||
                sscanf(end + 8 + m, " %15[a-z]", type) != 1) {
                return "no type";
            }
            end = strchr(end + 1, '\n');
            bool total = m > 6 && strcmp(metric + m - 6, "_total") == 0;
            if (end == NULL || total != (strcmp(type, "counter") == 0)) {
                return "not called as what it is";
            }
            samples = 0;
        } else {
            size_t m = strlen(metric), n = strcspn(line, "{\n");
            size_t labels = strcspn(line, "}\n");
            if (m == 0 || strncmp(line, metric, m) != 0 ||
                (n != m && (strcmp(type, "histogram") != 0 || line[m] != '_'))) {
                return "a sample of another metric";
            }
            if (strncmp(line + n, "{name=\"", 7) != 0 || strncmp(line + labels, "} ", 2) != 0) {
                return "no labels";
            }
            snprintf(key, sizeof key, "\n%.*s\n", (int)labels, line);
            if (strstr(series, key) != NULL) {
                return "the same series twice";
            }
            strcat(series, key + 1);
            char *rest;
            (void)strtod(line + labels + 2, &rest);
            if (rest != end && strncmp(line + labels + 2, "+Inf\n", 5) != 0) {
                return "no number";
            }
            samples++;
        }
        line = end + 1;
    }
    return samples == 0 ? "a metric without samples" : NULL;
}

TEST a_page_of_several_objects_of_all_kinds_is_valid(void)
{
    size_t length = write_page(text, ROOM);
    ASSERT(2 * length < ROOM);
    ASSERT_STR_EQ("", fault_of(text) == NULL ? "" : fault_of(text));
    /* And this is no accident: */
    memcpy(wanted, text, length);
    memcpy(wanted + length, text, length + 1);
    ASSERT_STR_EQ("described twice", fault_of(wanted));
    plim_named_value same[] = {{"x", 1}, {"x", 2}};
    plim_metrics_gauge(text, ROOM, 0, "m", "h", same, 2);
    ASSERT_STR_EQ("the same series twice", fault_of(text));
    plim_metrics_counter(text, ROOM, 0, "m", "h", same, 1);
    ASSERT_STR_EQ("not called as what it is", fault_of(text));
    PASS();
}

SUITE(metrics_texts)
{
    RUN_TEST(a_gauge_of_ones_own_is_written);
    RUN_TEST(a_counter_of_ones_own_is_written);
    RUN_TEST(a_histogram_of_ones_own_is_written);
    RUN_TEST(semaphores_are_written);
    RUN_TEST(weighted_semaphores_are_written);
    RUN_TEST(bulkheads_are_written);
    RUN_TEST(event_loops_are_written);
}

SUITE(metrics_promises)
{
    RUN_TEST(unlimited_is_infinite_and_none_is_zero);
    RUN_TEST(names_are_escaped);
    RUN_TEST(help_is_escaped);
    RUN_TEST(a_text_is_cut_anywhere_like_snprintf);
    RUN_TEST(lists_of_nothing_are_empty_blocks);
    RUN_TEST(histograms_add_up);
    RUN_TEST(a_histogram_whose_count_is_wrong_is_still_valid);
    RUN_TEST(a_bulkhead_that_works_has_figures_that_add_up);
    RUN_TEST(a_page_of_several_objects_of_all_kinds_is_valid);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(metrics_texts);
    RUN_SUITE(metrics_promises);
    GREATEST_MAIN_END();
}
