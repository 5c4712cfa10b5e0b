/* SPDX-License-Identifier: MIT
 *
 * A small HTTP server on one thread: epoll, with a loop_scheduler inside that brings timers, and
 * answers from other threads. For Linux.
 *
 *     static void hello(server_request *request, void *context)
 *     {
 *         server_respond(request, 200, NULL, "hello\n");      // now, or later from any thread
 *     }
 *
 *     server_options options = {.ports = {{.handler = hello, .port = 8080}}};
 *     server *s;
 *     int error = server_open(&s, &options);                  // listens
 *     error = error != 0 ? error : server_run(s);             // until somebody calls server_stop
 *     server_close(s);
 *
 * It may listen on two ports, each with its own handler, its own connections and their limit. So
 * what is asked on the second one, such as /metrics, is answered however full the first one is.
 *
 * What clients may do, and what they get:
 *   - Keep-alive: yes. Requests that were sent ahead (pipelining) wait in the socket, and are
 *     answered one after the other.
 *   - Slow clients: 408, when a head or a body is not complete in its time. The handler is called
 *     for complete requests only, so they take nothing from it.
 *   - What http.h refuses gets its status and the reason in words, and the connection ends.
 *   - "Expect: 100-continue" gets 100 if length and headers are in order, else the refusal at once.
 *   - A client that ends its sending side in the middle of a request gets 400.
 *   - One that does so while its request is with the handler has left, or says no more: TCP shows
 *     the same for both. `left` is told, and the handler may still respond, as if nothing was.
 *   - More connections than the limit: the one that has been idle for longest is closed for a new
 *     one. If all are busy the new one waits, in the queue of the system, until one ends.
 *
 * All memory is had in server_open. A connection takes about 5 KiB and what the limits say.
 */
#ifndef HTTP_WORKER_SERVER_H
#define HTTP_WORKER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "../../loop_scheduler.h"
#include "http.h"

enum { SERVER_PORTS = 2 };

typedef struct server server;

/* A request. It is the handler's from the call of the handler until server_respond. */
typedef struct server_request {
    http_request http;
    bool from_loopback; /* the client is on this machine */
    void *space;        /* for whatever the handler needs for it: see server_port; all zero */

    /* Private: see connection.h. */
    atomic_int owner;
    loop_scheduler_task answer;
} server_request;

/* Where to listen, and who answers. Handlers are called on the thread that is in server_run, and
 * must not block it. */
typedef struct server_port {
    uint16_t port; /* 0: any that is free; server_port_number says which */
    void (*handler)(server_request *request, void *context); /* NULL: this port is not used */
    /* The client has ended its side while the handler had its request; on the thread of the server,
     * at most once for a request, never after its server_respond has been seen to. NULL: nobody
     * wants to know. */
    void (*left)(server_request *request, void *context);
    void *context;
    size_t space;             /* bytes of request->space */
    uint32_t max_connections; /* 0: 256 */
    bool to_the_end;          /* server_stop lets this port go on until all others are done */
} server_port;

typedef struct server_options {
    const char *address; /* NULL: 127.0.0.1 */
    server_port ports[SERVER_PORTS];
    http_limits limits;
    size_t max_response; /* bytes, with its head (0: 32768; at least 512) */
    int64_t idle_ns;     /* for the next request to begin (0: 60 s); then the connection ends */
    int64_t head_ns;     /* from its first byte to the end of its headers (0: 10 s); then 408 */
    int64_t body_ns;     /* from there to the end of its body (0: 10 s); then 408 */
    int64_t write_ns;    /* for a response to be taken by the client (0: 10 s) */
    int64_t linger_ns;   /* for the client to see the end of a connection (0: 1 s) */
    int64_t spare_ns;    /* who has been idle for so long makes room for a new one (0: 1 s) */
} server_options;

/* requests == answered + lost + taken_back when nothing is under way. */
typedef struct server_counts {
    uint64_t connections;
    uint64_t requests; /* that were given to handlers: */
    uint64_t answered; /* the response went out */
    uint64_t lost;     /* the client left before that */
    uint64_t
        taken_back; /* the handler had not answered when the time of server_stop was over: 503 */
    uint64_t turned_away; /* had not been read completely at server_stop: 503, by the server */
    uint64_t refused;     /* not HTTP, too large, cut short: the parser's 4xx and 5xx */
    uint64_t timed_out;   /* 408 */
    uint64_t rounds;      /* of epoll: a server with nothing to do makes none */
} server_counts;

/* Listens. Returns 0, EINVAL for an option, ENOMEM, or what else the system says; then *out is
 * NULL. */
int server_open(server **out, const server_options *options);

/* The number of a port, 0 being the first of the options. Any thread, also after its end. */
uint16_t server_port_number(const server *s, int port);

/* Serves on the calling thread. Returns 0 when it has been stopped, all connections are closed and
 * the handlers have called server_respond for each request; or an errno value. */
int server_run(server *s);

/* Stops: closes the listening sockets (but see to_the_end) and the idle connections, and waits so
 * long for the handlers. Then what they still have is answered with 503; and so is, from now on,
 * what had not been read completely. A connection that has had no request yet has linger_ns for it,
 * since its client does not expect an end without a word. Any thread, or a signal handler; never
 * blocks; only the first call counts. */
void server_stop(server *s, int64_t within_ns);

/* Frees everything. Requires: server_run has returned, or was never called. NULL is ignored. */
void server_close(server *s);

/* Responds; once for each request, on any thread. It is not the handler's any more from the call on.
 * `headers` is NULL, or lines that each end with "\r\n": see http_response. All is copied. Returns
 * 0; ECANCELED nobody will see it, since the client has gone, or the server has answered 503 itself;
 * EMSGSIZE it is larger than max_response, and the client gets 500 instead. */
int server_respond(server_request *request, int status, const char *headers, const char *body);

/* The same for a body that is not text. keep_alive and without_body are not looked at. */
int server_respond_with(server_request *request, const http_response *response);

/* The loop that runs inside: for tasks, timers and coroutines that belong to the server's thread. */
loop_scheduler *server_loop(server *s);

/* Nanoseconds on the monotonic clock. */
int64_t now_ns(void);

/* From the server's thread, or when server_run has returned. */
server_counts server_count(const server *s);
uint32_t server_connections(const server *s, int port);

#endif
