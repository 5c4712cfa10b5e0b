/* SPDX-License-Identifier: MIT
 *
 * The worker as a program:
 *
 *     worker_main [PORT [CONTROL_PORT]]         (8080 and 8081; 0 is any that is free)
 *
 * Its settings come from the environment: see worker_options_from_env. It ends on SIGINT and SIGTERM,
 * with what it has accepted answered; then it prints the balance. The exit status is 1 if that does
 * not add up.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sigaction */
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "worker.h"

#ifdef __linux__

static worker *running;

static void stop(int signal)
{
    (void)signal;
    worker_stop(running, PLIM_S(10));
}

static const char *limit(uint32_t n, char text[16])
{
    if (n == (uint32_t)BULKHEAD_UNLIMITED) {
        return "unlimited";
    }
    snprintf(text, 16, "%u", n);
    return text;
}

static void print_beginning(bool single_thread)
{
    char permits[16], queue[16];
    bulkhead_stats s = worker_limiter(running);
    printf("calls:   http://127.0.0.1:%d/query?ms=20\n", worker_port(running));
    printf("control: http://127.0.0.1:%d/\n", worker_control_port(running));
    printf("at once: %s, waiting: %s, %s\n", limit(s.permits, permits), limit(s.queue, queue),
           single_thread ? "a single thread" : "a thread each");
    fflush(stdout);
}

/* Has every request had an answer, and every accepted job its end? */
static bool print_balance(void)
{
    server_counts n = worker_served(running);
    bulkhead_stats s = worker_limiter(running);
    uint64_t ended = s.succeeded + s.failed + s.cancelled + s.aborted;
    printf("%llu requests = %llu answered + %llu lost + %llu taken back\n",
           (unsigned long long)n.requests, (unsigned long long)n.answered,
           (unsigned long long)n.lost, (unsigned long long)n.taken_back);
    printf("%llu accepted = %llu succeeded + %llu failed + %llu cancelled + %llu aborted\n",
           (unsigned long long)s.accepted, (unsigned long long)s.succeeded,
           (unsigned long long)s.failed, (unsigned long long)s.cancelled,
           (unsigned long long)s.aborted);
    printf("at most %u handlers at once, %llu rejected\n", worker_handlers(running).peak,
           (unsigned long long)s.rejected);
    return n.requests == n.answered + n.lost + n.taken_back && s.accepted == ended;
}

int main(int argc, char **argv)
{
    worker_options options = worker_defaults();
    const char *wrong = NULL;
    if (worker_options_from_env(&options, &wrong) != 0) {
        fprintf(stderr, "%s: %s is wrong: %s\n", argv[0], wrong, getenv(wrong));
        return 2;
    }
    options.port = (uint16_t)(argc > 1 ? atoi(argv[1]) : 8080);
    options.control_port = (uint16_t)(argc > 2 ? atoi(argv[2]) : 8081);
    int error = worker_open(&running, &options);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(error));
        return 1;
    }
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    print_beginning(options.single_thread);
    error = worker_run(running);
    bool balanced = print_balance();
    worker_close(running);
    return error == 0 && balanced ? 0 : 1;
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
