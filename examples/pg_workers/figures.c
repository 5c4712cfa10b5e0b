/* SPDX-License-Identifier: MIT
 *
 * Figures: see figures.h. The four groups that tell whether the three layers fit together: permits,
 * idle workers, connections, times.
 */
#include "figures.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "db.h"
#include "fetching.h"
#include "processing.h"
#include "../../loop_scheduler.h"
#include "../../metrics.h"
#include "../http_worker/server.h"

figures totals;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static bulkhead_histogram acquisition, queue_wait;
static int idle_workers;
static int64_t idle_ns; /* minus the moments when those that are idle now began to be */
static server *page_server;
static pthread_t page_thread;

static void add(bulkhead_histogram *h, int64_t ns)
{
    pthread_mutex_lock(&lock);
    bulkhead_histogram_add(h, ns);
    pthread_mutex_unlock(&lock);
}

void figures_idle(int change)
{
    int64_t now = clock_ns();
    pthread_mutex_lock(&lock);
    idle_workers += change;
    idle_ns -= change * now;
    pthread_mutex_unlock(&lock);
}

void figures_acquisition(int64_t ns)
{
    add(&acquisition, ns);
}

void figures_queue_wait(int64_t ns)
{
    add(&queue_wait, ns);
}

void figures_given_back(enum slot_end end, bool ours)
{
    atomic_fetch_add(!ours                   ? &totals.lost
                     : end == SLOT_UNTOUCHED ? &totals.put_back
                                             : &totals.failed,
                     1);
}

/* ---- the page */

typedef struct page {
    char *out;
    size_t capacity, length;
} page;

static void put_gauge(page *p, const char *metric, const char *help, int64_t value)
{
    p->length = plim_metrics_gauge(p->out, p->capacity, p->length, metric, help,
                                   &(plim_named_value){"jobs", value}, 1);
}

static void put_counter(page *p, const char *metric, const char *help, int64_t value)
{
    p->length = plim_metrics_counter(p->out, p->capacity, p->length, metric, help,
                                     &(plim_named_value){"jobs", value}, 1);
}

static void put_histogram(page *p, const char *metric, const char *help,
                          const bulkhead_histogram *h)
{
    p->length = plim_metrics_histogram(p->out, p->capacity, p->length, metric, help,
                                       &(plim_named_histogram){"jobs", h}, 1);
}

/* All that the page shows, of about one moment. */
size_t figures_page(char *out, size_t capacity)
{
    static bulkhead_stats pools[3]; /* 4 KB each; there is one thread that serves pages */
    static bulkhead_histogram acquired, waited;
    page p = {out, capacity, 0};
    pools[0] = bulkhead_snapshot(&connections);
    pools[1] = bulkhead_snapshot(&fetching);
    pools[2] = bulkhead_snapshot(&processing);
    pthread_mutex_lock(&lock);
    acquired = acquisition;
    waited = queue_wait;
    int64_t idle = idle_ns + idle_workers * clock_ns();
    pthread_mutex_unlock(&lock);
    int open = (int)pools[0].in_use, active = db_active();
    int held = slots_in_use(), permits = (int)pools[2].permits;

    put_gauge(&p, "semaphore_permits_available", "Permits that are free now.", permits - held);
    put_gauge(&p, "semaphore_permits_in_use", "Permits that jobs hold, or claims.", held);

    put_counter(&p, "worker_jobs_acquired_total", "Jobs that were claimed.", totals.acquired);
    put_counter(&p, "worker_claims_total", "Statements that claimed them.", totals.claims);
    put_counter(&p, "worker_idle_seconds_total",
                "Time that workers waited for jobs or permits, of all workers together.",
                idle / PLIM_S(1));

    put_gauge(&p, "db_connections_active", "Connections that a question is under way on.", active);
    put_gauge(&p, "db_connections_idle", "Connections that are open and not active.",
              open > active ? open - active : 0);
    put_gauge(&p, "db_connections_limit", "Connections that there may be.", (int)pools[0].permits);

    put_counter(&p, "jobs_done_total", "Jobs that ended well.", totals.done);
    put_counter(&p, "jobs_failed_total", "Attempts that failed.", totals.failed);
    put_counter(&p, "jobs_put_back_total", "Jobs given back without an attempt.", totals.put_back);
    put_counter(&p, "jobs_lost_total", "Ends that came after the lease was lost.", totals.lost);
    put_counter(&p, "jobs_rescued_total", "Jobs of any process whose lease had run out.",
                totals.rescued);
    put_counter(&p, "looks_total", "Looks for jobs without being told.", totals.looks);
    put_counter(&p, "lease_renewals_total", "Statements that renewed leases.", totals.renewals);

    put_histogram(&p, "job_acquisition_seconds", "How long a claim took.", &acquired);
    put_histogram(&p, "job_processing_seconds", "How long an attempt took, its end included.",
                  &pools[2].run);
    put_histogram(&p, "job_queue_wait_seconds", "How long a job was due when it was claimed.",
                  &waited);
    plim_named_bulkhead named[] = {
        {"connections", &pools[0]}, {"workers", &pools[1]}, {"jobs", &pools[2]}};
    return plim_metrics_bulkhead(out, capacity, p.length, named, 3);
}

/* ---- over HTTP */

enum { PAGE_SIZE = 65536 };

static void respond(server_request *request, void *context)
{
    static char text[PAGE_SIZE]; /* the server has one thread */
    (void)context;
    if (strcmp(request->http.target, "/health") == 0) {
        server_respond(request, 200, NULL, "fine\n");
    } else if (strcmp(request->http.target, "/metrics") != 0) {
        server_respond(request, 404, NULL, "there are /metrics and /health\n");
    } else if (figures_page(text, sizeof text) >= sizeof text) {
        server_respond(request, 500, NULL, "the page is too long\n");
    } else {
        server_respond(request, 200, "Content-Type: text/plain; version=0.0.4\r\n", text);
    }
}

static void *serve(void *arg)
{
    server_run(arg);
    return NULL;
}

int figures_serve(int port)
{
    server_options options = {
        .ports = {{.handler = respond, .port = (uint16_t)port, .max_connections = 16}},
        .max_response = PAGE_SIZE + 512};
    int error = server_open(&page_server, &options);
    error = error != 0 ? error : pthread_create(&page_thread, NULL, serve, page_server);
    if (error != 0) {
        server_close(page_server);
        page_server = NULL;
    }
    return error;
}

void figures_serve_no_more(void)
{
    if (page_server != NULL) {
        server_stop(page_server, 0);
        pthread_join(page_thread, NULL);
        server_close(page_server);
    }
}
