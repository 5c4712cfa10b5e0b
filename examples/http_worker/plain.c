/* SPDX-License-Identifier: MIT
 *
 * The server alone, without a limit: what server.h looks like in use.
 *
 *     plain [PORT [PORT]]           then: curl http://127.0.0.1:PORT/ and .../slow
 *
 * / is answered at once, /slow by a timer after 100 ms, and /health on the second port. It ends on
 * SIGINT and SIGTERM, when all is answered, and prints the balance.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sigaction */
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "server.h"

#ifdef __linux__

static server *running;

static void slow_is_due(loop_scheduler_timer *timer, int status)
{
    (void)status;
    server_respond(timer->arg, 200, NULL, "slowly\n");
}

static void answer(server_request *request, void *context)
{
    (void)context;
    const char *target = request->http.target;
    if (strcmp(target, "/") == 0) {
        server_respond(request, 200, NULL, "hello\n");
    } else if (strcmp(target, "/slow") == 0) {
        loop_scheduler_timer *timer = request->space;
        timer->run = slow_is_due;
        timer->arg = request;
        loop_scheduler_timer_start(server_loop(running), timer, PLIM_MS(100), 0);
    } else {
        server_respond(request, 404, NULL, "there are / and /slow\n");
    }
}

static void tell_health(server_request *request, void *context)
{
    (void)context;
    bool known = strcmp(request->http.target, "/health") == 0;
    server_respond(request, known ? 200 : 404, NULL, known ? "fine\n" : "there is /health\n");
}

static void stop(int signal)
{
    (void)signal;
    server_stop(running, PLIM_S(5));
}

static void print_balance(server_counts n)
{
    printf("%llu connections, %llu requests = %llu answered + %llu lost + %llu taken back\n",
           (unsigned long long)n.connections, (unsigned long long)n.requests,
           (unsigned long long)n.answered, (unsigned long long)n.lost,
           (unsigned long long)n.taken_back);
    printf("without a handler: %llu refused, %llu timed out, %llu turned away\n",
           (unsigned long long)n.refused, (unsigned long long)n.timed_out,
           (unsigned long long)n.turned_away);
}

int main(int argc, char **argv)
{
    server_options options = {.ports = {{.handler = answer,
                                         .space = sizeof(loop_scheduler_timer),
                                         .port = (uint16_t)(argc > 1 ? atoi(argv[1]) : 8080)},
                                        {.handler = tell_health,
                                         .to_the_end = true,
                                         .port = (uint16_t)(argc > 2 ? atoi(argv[2]) : 8081)}}};
    int error = server_open(&running, &options);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(error));
        return 1;
    }
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    printf("http://127.0.0.1:%d/ and http://127.0.0.1:%d/health\n", server_port_number(running, 0),
           server_port_number(running, 1));
    fflush(stdout);
    error = server_run(running);
    print_balance(server_count(running));
    server_close(running);
    return error == 0 ? 0 : 1;
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
