/* SPDX-License-Identifier: MIT
 *
 * A listening socket and its connections: the beginning, letting clients in, the end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include "connection.h"

#ifdef __linux__

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "no_more_clients.h"

enum { BACKLOG = 4096, ACCEPTS = 16 }; /* the system may allow fewer in its queue */

/* ---- letting clients in */

/* Not again and again: after a while, or when a connection has ended. */
static void pause_listening(port *p, int64_t ns)
{
    watch(p->server, &p->watched, 0);
    loop_scheduler_timer_start(&p->server->loop, &p->retry, ns, 0);
}

static void resume_listening(port *p)
{
    if (p->watched.fd >= 0) {
        watch(p->server, &p->watched, EPOLLIN);
    }
}

static void retry_listening(loop_scheduler_timer *timer, int status)
{
    if (status == 0) {
        resume_listening(timer->arg);
    }
}

/* Makes room, if somebody has been idle for long enough: in the next round there is a place. One that
 * was let in a moment ago has had no time to say anything. */
static bool close_longest_idle(port *p)
{
    connection *longest = NULL;
    int64_t latest = now_ns() - p->server->options.spare_ns;
    for (uint32_t i = 0; i < p->options.max_connections; i++) {
        connection *c = &p->all[i];
        if (c->stage == READING && !http_has_begun(&c->request.http) && c->idle_since <= latest &&
            (longest == NULL || c->idle_since < longest->idle_since)) {
            longest = c;
        }
    }
    if (longest != NULL) {
        connection_close(longest);
    }
    return longest != NULL;
}

static bool accept_one(port *p)
{
    struct sockaddr_in from = {0};
    socklen_t size = sizeof from;
    int fd = accept4(p->watched.fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        bool nothing = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        if (!nothing) { /* no descriptors, no memory */
            pause_listening(p, PLIM_MS(100));
        }
        return false;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    connection *c = p->free;
    p->free = c->next;
    p->used++;
    p->server->counts.connections++;
    c->request.from_loopback = ntohl(from.sin_addr.s_addr) >> 24 == 127;
    connection_begin(c, fd);
    return true;
}

static void port_ready(watched *w, uint32_t events)
{
    (void)events;
    port *p = (port *)(void *)w;
    if (p->free == NULL && p->retired == NULL && !close_longest_idle(p)) {
        pause_listening(p, p->server->options.spare_ns); /* then somebody may have been idle */
    }
    for (int i = 0; i < ACCEPTS && p->free != NULL && accept_one(p); i++) {}
}

void retire(connection *c)
{
    c->next = c->port->retired;
    c->port->retired = c;
    c->port->used--;
}

/* Connections that were closed in this round may be used again: no event names them any more. */
void port_recycle(port *p)
{
    if (p->retired != NULL) {
        resume_listening(p);
    }
    while (p->retired != NULL) {
        connection *c = p->retired;
        p->retired = c->next;
        c->next = p->free;
        p->free = c;
    }
}

/* ---- its end */

void port_end_connections(port *p, bool at_once)
{
    for (uint32_t i = 0; i < p->options.max_connections && p->all != NULL; i++) {
        connection_end(&p->all[i], at_once);
    }
}

void port_end(port *p)
{
    p->ending = true;
    if (p->watched.fd >= 0) {
        no_more_clients(p->watched.fd);
    }
    while (p->watched.fd >= 0 && p->free != NULL && accept_one(p)) {
    } /* those whose connection the system has accepted already */
    unwatch(&p->watched);
    port_end_connections(p, false);
}

void port_close(port *p)
{
    for (uint32_t i = 0; i < p->options.max_connections && p->all != NULL; i++) {
        unwatch(&p->all[i].watched);
    }
    unwatch(&p->watched);
    free(p->memory);
    free(p->all);
}

/* ---- its beginning */

static int listen_on(port *p, const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(p->options.port)};
    if (inet_pton(AF_INET, address != NULL ? address : "127.0.0.1", &at.sin_addr) != 1) {
        return EINVAL;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    p->watched = (watched){.ready = port_ready, .fd = fd, .interest = UNWATCHED};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, BACKLOG) != 0) {
        return errno;
    }
    socklen_t size = sizeof at;
    getsockname(fd, (struct sockaddr *)&at, &size); /* the system may have chosen it */
    p->number = ntohs(at.sin_port);
    watch(p->server, &p->watched, EPOLLIN);
    return p->watched.interest == EPOLLIN ? 0 : ENOMEM;
}

/* One piece of memory for what all connections of a port need. */
static int make_connections(port *p)
{
    const server_options *o = &p->server->options;
    size_t align = _Alignof(max_align_t);
    size_t space = (p->options.space + align - 1) / align * align;
    size_t parser = http_buffer_size(&o->limits);
    size_t each = (space + INPUT + parser + o->max_response + align - 1) / align * align;
    p->all = calloc(p->options.max_connections, sizeof *p->all);
    p->memory = calloc(p->options.max_connections, each);
    if (p->all == NULL || p->memory == NULL) {
        return ENOMEM;
    }
    for (uint32_t i = 0; i < p->options.max_connections; i++) {
        connection *c = &p->all[i];
        char *memory = p->memory + i * each;
        c->port = p;
        c->watched.fd = -1;
        c->request.space = memory;
        c->input = memory + space;
        c->memory = c->input + INPUT;
        c->output = c->memory + parser;
        c->next = p->free;
        p->free = c;
    }
    return 0;
}

int port_open(server *s, int i)
{
    port *p = &s->ports[i];
    p->server = s;
    p->options = s->options.ports[i];
    p->watched.fd = -1;
    p->retry = (loop_scheduler_timer){.run = retry_listening, .arg = p};
    if (p->options.handler == NULL) {
        p->ending = true;
        return 0;
    }
    if (p->options.max_connections == 0) {
        p->options.max_connections = 256;
    }
    int error = make_connections(p);
    return error != 0 ? error : listen_on(p, s->options.address);
}

uint16_t server_port_number(const server *s, int i)
{
    return s->ports[i].number;
}

#endif
