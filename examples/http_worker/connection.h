/* SPDX-License-Identifier: MIT
 *
 * What server.c, port.c and connection.c share.
 *
 * All of it belongs to the thread of server_run, except
 *   - owner of a request: see below
 *   - output of a connection: the handler's while the owner is HANDLER, and that of the call to
 *     server_respond which made it ANSWERED, until the task of that call runs
 *   - stopping and within_ns of the server
 */
#ifndef HTTP_WORKER_CONNECTION_H
#define HTTP_WORKER_CONNECTION_H

#include "server.h"

enum { INPUT = 4096 };

#define UNWATCHED UINT32_MAX /* epoll does not know it yet */

/* What epoll watches: it gives this back when something is ready. */
typedef struct watched {
    void (*ready)(struct watched *w, uint32_t events);
    int fd;            /* -1: closed */
    uint32_t interest; /* what epoll knows */
} watched;

/* Where a connection is. */
enum {
    FREE,     /* not used */
    READING,  /* a request, or waiting for one */
    ASKED,    /* the handler has the request */
    WRITING,  /* a response */
    LINGERING /* our side has ended, the client's not yet. If we closed at once, what it still sends
                 would make the system throw away what it has not read */
};

/*
 * Who decides about a request. The handler and the end of its time may want to answer at once, on two
 * threads; one atomic step lets one of them do so.
 *
 *   owner      moved by, to
 *   NOBODY     the server's thread, when it calls the handler: HANDLER
 *   HANDLER    server_respond, any thread: ANSWERED. The server's thread, when the client has gone
 *              or the time of server_stop is over: REVOKED
 *   REVOKED    server_respond: ANSWERED
 *   ANSWERED   the server's thread, when the task of that server_respond runs: NOBODY
 */
enum { NOBODY, HANDLER, REVOKED, ANSWERED };

typedef struct port port;

typedef struct connection {
    watched watched; /* the first, for `ready` */
    server_request request;
    port *port;
    struct connection *next; /* in a list of free ones */
    int stage;
    int phase;                  /* which time runs while READING: see await_more */
    bool with_handler;          /* a handler has yet to call server_respond, or its task to run */
    bool revoked;               /* and the connection does not wait for it */
    bool handlers_answer;       /* what is being written is a handler's answer */
    bool has_left;              /* the client, while ASKED */
    bool closes;                /* after the response that is being written */
    bool is_kept;               /* it has had a request */
    int64_t idle_since;         /* while it waits for a request */
    char *input;                /* INPUT bytes */
    size_t input_at, input_end; /* what has been read and not been looked at */
    char *memory;               /* of the request's parser */
    char *output;               /* max_response bytes */
    size_t output_at, output_end;
    loop_scheduler_timer timer; /* never cancelled: it does nothing if it comes in another stage */
} connection;

struct port {
    watched watched;
    server *server;
    server_port options;
    uint16_t number; /* where it listens; constant */
    connection *all;
    connection *free, *retired; /* retired: closed in this round; an event may still name them */
    uint32_t used;
    char *memory; /* of all its connections */
    bool ending;  /* nobody is let in any more */
    loop_scheduler_timer retry;
};

struct server {
    loop_scheduler loop;
    server_options options;
    port ports[SERVER_PORTS];
    watched loop_watched;
    int epoll;
    bool over;
    /* Any thread reads it, to say "Connection: close"; if it comes too late for that, the connection
     * is closed all the same. */
    atomic_bool stopping;
    _Atomic int64_t within_ns; /* of server_stop; -1: it has not been called */
    loop_scheduler_task stop;
    loop_scheduler_timer deadline;
    server_counts counts;
};

/* server.c */
void watch(server *s, watched *w, uint32_t interest);
void unwatch(watched *w);

/* port.c */
int port_open(server *s, int i);
void port_end(port *p); /* lets nobody in any more, and ends the idle connections */
void port_end_connections(port *p, bool at_once);
void port_recycle(port *p); /* between two rounds */
void port_close(port *p);
void retire(connection *c); /* it is closed, and no handler has its request */

/* connection.c */
void connection_begin(connection *c, int fd);
void connection_close(connection *c);
void connection_end(connection *c, bool at_once); /* of the server; at once: its time is over */

#endif
