/* SPDX-License-Identifier: MIT
 *
 * The same limit in a server of somebody else, libmicrohttpd:  mhd [PORT]      (8082)
 *
 * A request is suspended, and is a job of a bulkhead: 4 run, 8 wait, the others get 429. The end of
 * the job resumes it. So the one thread of the library never waits, and /metrics needs no permit. It
 * does not tell when the client of a suspended request has left. On SIGINT and SIGTERM all that was
 * accepted is answered, and the balance is printed.
 */
#define _GNU_SOURCE /* sigwait, usleep */
#include <stdio.h>

#ifdef WITH_MICROHTTPD

#include <arpa/inet.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../bulkhead.h"
#include "../../metrics.h"
#include "no_more_clients.h"

enum { PERMITS = 4, QUEUE = 8, WORK_MS = 50, IDLE_S = 2 /* a connection */ };

typedef struct request {
    bulkhead_job job;
    struct MHD_Connection *connection;
    int status; /* 0: not known yet */
} request;

static bulkhead limit;
static atomic_ullong asked, answered; /* requests, so far */
static atomic_bool stopping;

static int work(bulkhead_job *job) /* on a worker of the bulkhead */
{
    (void)job;
    return usleep(WORK_MS * 1000);
}

static void done(bulkhead_job *job) /* the last touch of the job, on whichever thread */
{
    request *r = job->arg;
    r->status = job->outcome == BULKHEAD_SUCCEEDED ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    MHD_resume_connection(r->connection);
}

static enum MHD_Result send_text(struct MHD_Connection *connection, int status, char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
    if (status == MHD_HTTP_TOO_MANY_REQUESTS) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER,
                                "1"); /* 113 ms, rounded up */
    }
    if (atomic_load(&stopping)) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

/* Called when the head is there, for each part of a body, at the end of it, and once resumed. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    request *r = *state;
    (void)context, (void)method, (void)version, (void)data;
    if (r == NULL) {
        r = *state = calloc(1, sizeof *r);
        atomic_fetch_add(&asked, r != NULL);
        return r != NULL ? MHD_YES : MHD_NO;
    }
    if (*size != 0) {
        return *size = 0, MHD_YES; /* a body is not looked at */
    }
    if (strcmp(url, "/metrics") == 0) {
        char page[16384];
        bulkhead_stats s = bulkhead_snapshot(&limit);
        plim_metrics_bulkhead(page, sizeof page, 0, &(plim_named_bulkhead){"calls", &s}, 1);
        return send_text(connection, MHD_HTTP_OK, page);
    }
    if (r->status == 0) {
        r->connection = connection;
        r->job = (bulkhead_job){.run = work, .arg = r, .done = done, .detached = true};
        MHD_suspend_connection(connection); /* before: the job may be done at once */
        int error = bulkhead_submit(&limit, &r->job);
        if (error != 0) {
            r->status = error == EAGAIN ? MHD_HTTP_TOO_MANY_REQUESTS : MHD_HTTP_SERVICE_UNAVAILABLE;
            MHD_resume_connection(connection);
        }
        return MHD_YES;
    }
    return send_text(connection, r->status, r->status == MHD_HTTP_OK ? "done\n" : "not done\n");
}

static void completed(void *context, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode how)
{
    (void)context, (void)connection, (void)how;
    atomic_fetch_add(&answered, *state != NULL);
    free(*state);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 8082)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    bulkhead_init(&limit,
                  &(bulkhead_options){.type = BULKHEAD_ASYNC, .permits = PERMITS, .queue = QUEUE});
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         handle, NULL, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_TIMEOUT,
                         IDLE_S, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_END);
    if (d == NULL) {
        return perror("cannot listen"), 1;
    }
    printf("calls:   http://127.0.0.1:%d/\nat once: %d, waiting: %d\n",
           MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port, PERMITS, QUEUE);
    fflush(stdout);
    sigwait(&ends, &(int){0});
    atomic_store(&stopping, true);
    no_more_clients(MHD_get_daemon_info(d, MHD_DAEMON_INFO_LISTEN_FD)->listen_fd);
    bulkhead_close(&limit, BULKHEAD_DRAIN, PLIM_S(10));
    const enum MHD_DaemonInfoType connected = MHD_DAEMON_INFO_CURRENT_CONNECTIONS;
    for (int i = 0; i < 1000 && MHD_get_daemon_info(d, connected)->num_connections > 0; i++) {
        usleep(10000); /* until all is sent, and those who have connected have asked, or are idle */
    }
    MHD_stop_daemon(d);
    printf("%llu requests, %llu answered\n", atomic_load(&asked), atomic_load(&answered));
    return bulkhead_destroy(&limit) != 0 || atomic_load(&asked) != atomic_load(&answered);
}
#else
int main(void)
{
    return puts("skipped: libmicrohttpd is not installed"), 77;
}
#endif
