/* SPDX-License-Identifier: MIT
 *
 * What happens on one connection: READING, ASKED, WRITING, and again; or LINGERING and the end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* EPOLLRDHUP */
#endif
#include "connection.h"

#ifdef __linux__

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Whose time runs while READING. */
enum { NO_PHASE, IDLE_PHASE, HEAD_PHASE, BODY_PHASE };

static server *server_of(const connection *c)
{
    return c->port->server;
}

static connection *connection_of(server_request *request)
{
    return (connection *)(void *)((char *)request - offsetof(connection, request));
}

static void set_timer(connection *c, int64_t ns)
{
    loop_scheduler_timer_start(&server_of(c)->loop, &c->timer, ns, 0);
}

/* ---- its end */

/* Takes a request back from its handler; false if the answer is on the way. */
static bool take_back(connection *c)
{
    int owner = HANDLER;
    return atomic_compare_exchange_strong(&c->request.owner, &owner, REVOKED);
}

/* It is gone, at once. The handler may still have the request: then its memory is kept. */
void connection_close(connection *c)
{
    bool waits_for_handler = c->with_handler && !c->revoked;
    server_of(c)->counts.lost += c->handlers_answer || waits_for_handler;
    if (waits_for_handler) {
        take_back(c); /* if its answer is on the way, take_answer drops that */
    }
    c->handlers_answer = false;
    c->revoked = true;
    c->stage = FREE;
    unwatch(&c->watched);
    if (!c->with_handler) {
        retire(c);
    }
}

/* Nothing more comes from us; lets the client read it all. */
static void linger(connection *c)
{
    c->stage = LINGERING;
    shutdown(c->watched.fd, SHUT_WR);
    watch(server_of(c), &c->watched, EPOLLIN);
    set_timer(c, server_of(c)->options.linger_ns);
}

/* ---- WRITING */

static void next_request(connection *c);

static void written(connection *c)
{
    if (c->handlers_answer) {
        c->handlers_answer = false;
        server_of(c)->counts.answered++;
    }
    if (c->closes || atomic_load_explicit(&server_of(c)->stopping, memory_order_relaxed)) {
        linger(c);
    } else {
        next_request(c);
    }
}

static void write_on(connection *c)
{
    ssize_t n =
        send(c->watched.fd, c->output + c->output_at, c->output_end - c->output_at, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        connection_close(c);
        return;
    }
    c->output_at += n > 0 ? (size_t)n : 0;
    if (c->output_at == c->output_end) {
        written(c);
    } else {
        watch(server_of(c), &c->watched, EPOLLOUT);
    }
}

static void begin_writing(connection *c, bool handlers_answer)
{
    c->stage = WRITING;
    c->handlers_answer = handlers_answer;
    c->output_at = 0;
    write_on(c);
    if (c->stage == WRITING) {
        set_timer(c, server_of(c)->options.write_ns);
    }
}

/* Puts a response into output; 500 instead of one that does not fit. */
static int format(connection *c, const http_response *response)
{
    size_t room = server_of(c)->options.max_response;
    c->output_end = http_write_response(c->output, room, response);
    if (c->output_end != 0) {
        return 0;
    }
    http_response instead = {.status = 500,
                             .body = "the response is too large\n",
                             .body_size = 26,
                             .keep_alive = response->keep_alive};
    c->output_end = http_write_response(c->output, room, &instead);
    return EMSGSIZE;
}

/* The server's own answer. What follows on this connection cannot be trusted, or is not wanted. */
static void answer_and_close(connection *c, int status, const char *reason)
{
    char body[128];
    int n = snprintf(body, sizeof body, "%s\n", reason);
    http_response response = {.status = status, .body = body, .body_size = (size_t)n};
    c->closes = true;
    format(c, &response);
    begin_writing(c, false);
}

/* ---- ASKED */

/* The answer of a handler has come, from whichever thread. */
static void take_answer(loop_scheduler_task *task, int status)
{
    (void)status; /* the loop is not closed before all answers are here */
    connection *c = connection_of(task->arg);
    atomic_store(&c->request.owner, NOBODY);
    c->with_handler = false;
    if (!c->revoked) {
        begin_writing(c, true);
    } else if (c->stage == FREE) {
        retire(c);
    }
}

int server_respond_with(server_request *request, const http_response *given)
{
    connection *c = connection_of(request);
    server *s = server_of(c);
    int error = ECANCELED;
    int owner = atomic_exchange(&request->owner, ANSWERED);
    if (owner == NOBODY || owner == ANSWERED) {
        PLIM_ASSERT(false, "server_respond: this request has been responded to");
        return EALREADY;
    }
    if (owner == HANDLER) {
        http_response response = *given;
        bool stopping = atomic_load_explicit(&s->stopping, memory_order_relaxed);
        response.keep_alive = request->http.keep_alive && !stopping;
        response.without_body = strcmp(request->http.method, "HEAD") == 0;
        error = format(c, &response);
    }
    /* From here on the server may forget the request, and be closed. */
    loop_scheduler_post(&s->loop, &request->answer);
    return error;
}

int server_respond(server_request *request, int status, const char *headers, const char *body)
{
    http_response response = {
        .status = status, .headers = headers, .body = body, .body_size = strlen(body)};
    return server_respond_with(request, &response);
}

static void ask(connection *c)
{
    server *s = server_of(c);
    c->closes = !c->request.http.keep_alive;
    c->is_kept = true;
    if (c->port->ending) {
        s->counts.turned_away++;
        answer_and_close(c, 503, "the server is being stopped");
        return;
    }
    s->counts.requests++;
    c->stage = ASKED;
    c->with_handler = true;
    c->revoked = c->has_left = false;
    watch(s, &c->watched, c->port->options.left != NULL ? EPOLLRDHUP : 0);
    if (c->port->options.space > 0) {
        memset(c->request.space, 0, c->port->options.space);
    }
    c->request.answer = (loop_scheduler_task){.run = take_answer, .arg = &c->request};
    atomic_store(&c->request.owner, HANDLER);
    c->port->options.handler(&c->request, c->port->options.context);
}

/* It has ended its side at least. */
static void tell_that_client_left(connection *c)
{
    watch(server_of(c), &c->watched, 0); /* or epoll would tell it again and again */
    if (!c->has_left && c->port->options.left != NULL) {
        c->has_left = true;
        c->port->options.left(&c->request, c->port->options.context);
    }
}

/* ---- READING */

/* More is to come: by when? The time of a phase runs from its beginning, so a byte now and then does
 * not make it longer. */
static void await_more(connection *c)
{
    server *s = server_of(c);
    int phase = c->request.http.head_is_complete   ? BODY_PHASE
                : http_has_begun(&c->request.http) ? HEAD_PHASE
                                                   : IDLE_PHASE;
    watch(s, &c->watched, EPOLLIN);
    if (phase != c->phase) {
        c->phase = phase;
        set_timer(c, phase == BODY_PHASE   ? s->options.body_ns
                     : phase == HEAD_PHASE ? s->options.head_ns
                                           : s->options.idle_ns);
    }
}

/* The client waits for this before it sends its body. If there is no room for it at the moment, the
 * client will go on by itself after a while; but half of it must not be sent. */
static bool send_continue(connection *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ssize_t n = send(c->watched.fd, text, sizeof text - 1, MSG_NOSIGNAL);
    return n == (ssize_t)sizeof text - 1 || (n < 0 && errno == EAGAIN);
}

/* Looks at what has been read: up to the end of a request, and no further. */
static void look_at_input(connection *c)
{
    http_request *r = &c->request.http;
    size_t taken;
    http_result result = http_feed(r, c->input + c->input_at, c->input_end - c->input_at, &taken);
    c->input_at += taken;
    if (result == HTTP_DONE) {
        ask(c);
    } else if (result == HTTP_REFUSED) {
        server_of(c)->counts.refused++;
        answer_and_close(c, r->status, r->reason);
    } else if (r->awaits_continue && !send_continue(c)) {
        connection_close(c);
    } else {
        await_more(c);
    }
}

/* Gets ready for the next request, of which a part may have been read already. */
static void next_request(connection *c)
{
    c->stage = READING;
    c->phase = NO_PHASE;
    c->idle_since = now_ns();
    http_begin(&c->request.http, c->memory, &server_of(c)->options.limits);
    look_at_input(c);
}

static void read_on(connection *c)
{
    ssize_t n = recv(c->watched.fd, c->input, INPUT, 0);
    if (n > 0) {
        c->input_at = 0;
        c->input_end = (size_t)n;
        look_at_input(c);
    } else if (n == 0 && http_has_begun(&c->request.http)) {
        server_of(c)->counts.refused++;
        answer_and_close(c, 400, "the request is cut short");
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        connection_close(c);
    }
}

/* ---- LINGERING */

static void read_and_forget(connection *c)
{
    ssize_t n = recv(c->watched.fd, c->input, INPUT, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        connection_close(c);
    }
}

/* ---- what calls all that: epoll, a timer, the end of the server */

static void connection_ready(watched *w, uint32_t events)
{
    connection *c = (connection *)(void *)w;
    if (c->stage == ASKED) {
        tell_that_client_left(c);
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        connection_close(c);
    } else if (c->stage == READING) {
        read_on(c);
    } else if (c->stage == WRITING) {
        write_on(c);
    } else if (c->stage == LINGERING) {
        read_and_forget(c);
    }
}

static void time_is_over(loop_scheduler_timer *timer, int status)
{
    connection *c = timer->arg;
    if (status != 0 || c->stage == FREE || c->stage == ASKED) {
        return;
    }
    if (c->stage == READING && c->phase != IDLE_PHASE) {
        server_of(c)->counts.timed_out++;
        answer_and_close(c, 408, "the request took too long to come");
    } else {
        connection_close(c);
    }
}

void connection_begin(connection *c, int fd)
{
    c->watched = (watched){.ready = connection_ready, .fd = fd, .interest = UNWATCHED};
    c->timer.run = time_is_over;
    c->timer.arg = c;
    c->input_at = c->input_end = 0;
    c->with_handler = c->revoked = c->handlers_answer = c->closes = c->is_kept = false;
    next_request(c);
}

/* Waits for a request, and nothing of it has come. */
static bool is_idle(const connection *c)
{
    return c->stage == READING && !http_has_begun(&c->request.http);
}

void connection_end(connection *c, bool at_once)
{
    if (is_idle(c)) {
        read_on(c); /* what has come already is answered: 503 */
    }
    if (is_idle(c) && (at_once || c->is_kept)) {
        connection_close(c);
    } else if (is_idle(c)) {
        set_timer(c, server_of(c)->options.linger_ns); /* its first request may be on its way */
    } else if (!at_once) {
        return;
    } else if (c->stage == READING) {
        server_of(c)->counts.turned_away++;
        answer_and_close(c, 503, "the server is being stopped");
    } else if (c->stage == ASKED && take_back(c)) {
        c->revoked = true;
        server_of(c)->counts.taken_back++;
        answer_and_close(c, 503, "the server is being stopped");
    } else if (c->stage == WRITING) {
        set_timer(c, server_of(c)->options.linger_ns);
    }
}

#endif
