/* SPDX-License-Identifier: MIT
 *
 * The server of examples/http_worker where something ends or is full. Clients leave while the
 * handler has their request; connections reach their limit; the server itself ends.
 */
#undef NDEBUG
#include "pieces.h"

#ifdef __linux__

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include "../../examples/http_worker/no_more_clients.h"

/* ---- clients that leave while the handler has their request */

/* The other port is ready to answer whatever happens on the first. */
static bool is_healthy(void)
{
    client *c = dial(1);
    bool healthy = say(c, GET("/health")) && hear(c) == 200 && body_is(c, "health");
    hang_up(c);
    return healthy;
}

TEST a_client_that_ends_its_side_gets_its_answer_and_the_handler_is_told(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/hold")));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    ASSERT_INT(0, atomic_load(&it.left));
    shutdown(c->fd, SHUT_WR);
    ASSERT(EVENTUALLY(atomic_load(&it.left) == 1));
    ASSERT(is_healthy()); /* and rounds go by */
    ASSERT_INT(0, release());
    ASSERT_INT(200, hear(c));
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(ended_well());
    ASSERT_INT(1, atomic_load(&it.left)); /* once */
    ASSERT_INT(0, counts.lost);
    PASS();
}

TEST a_client_that_leaves_in_two_steps_is_told_once_and_keeps_nobody_busy(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/hold")));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    shutdown(c->fd, SHUT_WR);
    ASSERT(EVENTUALLY(atomic_load(&it.left) == 1));
    uint64_t rounds = look().rounds;
    rest(PLIM_MS(20));
    ASSERT(look().rounds - rounds <= 4); /* for the looks */
    vanish(c);
    ASSERT(EVENTUALLY(look().lost == 1));
    ASSERT_INT(ECANCELED, release());
    ASSERT(ended_well());
    ASSERT_INT(1, atomic_load(&it.left));
    PASS();
}

TEST a_client_that_is_gone_is_noticed_and_the_answer_is_dropped(bool handler_wants_to_know)
{
    server_options options = patient();
    if (!handler_wants_to_know) {
        options.ports[0].left = NULL;
    }
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/hold") GET("/never")));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    vanish(c);
    ASSERT(EVENTUALLY(look().lost == 1));
    ASSERT_INT(handler_wants_to_know, atomic_load(&it.left));
    ASSERT_INT(ECANCELED, release());
    ASSERT(ended_well());
    ASSERT_INT(1, counts.lost);
    ASSERT_INT(1, counts.requests); /* what it had sent ahead was not asked */
    PASS();
}

TEST a_place_is_not_used_again_before_the_handler_gives_it_back(void)
{
    server_options options = patient();
    options.ports[0].max_connections = 1;
    ASSERT_INT(0, begin(&options));
    client *gone = dial(0);
    ASSERT(say(gone, GET("/hold") "GET /nev")); /* the next one does not inherit this */
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    vanish(gone);
    ASSERT(EVENTUALLY(look().lost == 1));
    client *c = dial(0);
    ASSERT(say(c, GET("/a")));
    ASSERT(is_healthy() && is_healthy());
    ASSERT_INT(1 + 2, look().connections); /* two of the other port */
    ASSERT_INT(ECANCELED, release());
    ASSERT_INT(200, hear(c));
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

SUITE(clients_that_leave)
{
    RUN_TEST(a_client_that_ends_its_side_gets_its_answer_and_the_handler_is_told);
    RUN_TEST(a_client_that_leaves_in_two_steps_is_told_once_and_keeps_nobody_busy);
    RUN_TESTp(a_client_that_is_gone_is_noticed_and_the_answer_is_dropped, true);
    RUN_TESTp(a_client_that_is_gone_is_noticed_and_the_answer_is_dropped, false);
    RUN_TEST(a_place_is_not_used_again_before_the_handler_gives_it_back);
}

/* ---- the limit on connections */

TEST a_connection_above_the_limit_waits_until_one_ends(void)
{
    server_options options = patient();
    options.ports[0].max_connections = 2;
    options.spare_ns = PLIM_S(PATIENCE_S); /* the end of one is what lets the next one in */
    ASSERT_INT(0, begin(&options));
    client *busy[] = {dial(0), dial(0)};
    for (int i = 0; i < 2; i++) {
        ASSERT(say(busy[i], "GET /hold HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"));
    }
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 2));
    client *waiting = dial(0);
    ASSERT(say(waiting, GET("/a")));
    ASSERT(is_healthy());                  /* the other port has connections of its own */
    ASSERT_INT(2 + 1, look().connections); /* one of the other port: the third waits */
    ASSERT_INT(0, release());
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(200, hear(busy[i]));
        hang_up(busy[i]);
    }
    ASSERT_INT(200, hear(waiting));
    hang_up(waiting);
    ASSERT(ended_well());
    PASS();
}

TEST one_that_is_idle_makes_room_and_a_busy_one_does_not(void)
{
    server_options options = patient();
    options.ports[0].max_connections = 3;
    options.spare_ns = 1;
    ASSERT_INT(0, begin(&options));
    client *idle = dial(0), *later = dial(0), *busy = dial(0);
    ASSERT(say(idle, GET("/a")));
    ASSERT_INT(200, hear(idle));
    ASSERT(say(later, GET("/a")));
    ASSERT_INT(200, hear(later));
    ASSERT(say(busy, GET("/hold")));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    client *c = dial(0);
    ASSERT(say(c, GET("/b")));
    ASSERT_INT(200, hear(c));
    ASSERT(hears_end(idle)); /* the longest idle, and no other */
    ASSERT(say(later, GET("/a")));
    ASSERT_INT(200, hear(later));
    ASSERT_INT(0, release());
    ASSERT_INT(200, hear(busy));
    hang_up(idle);
    hang_up(later);
    hang_up(busy);
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

/* One that was let in a moment ago has had no time to say anything. */
TEST one_that_has_not_been_idle_for_long_is_left_alone(void)
{
    server_options options = patient();
    options.ports[0].max_connections = 1;
    options.spare_ns = PLIM_MS(30);
    ASSERT_INT(0, begin(&options));
    client *first = dial(0);
    int64_t from = plim_now_();
    ASSERT(say(first, GET("/a")));
    ASSERT_INT(200, hear(first));
    client *c = dial(0);
    ASSERT(say(c, GET("/b")));
    ASSERT_INT(200, hear(c)); /* at last, without anybody's doing */
    ASSERT(plim_now_() - from >= PLIM_MS(30));
    ASSERT(hears_end(first));
    hang_up(first);
    hang_up(c);
    ASSERT(ended_well());
    PASS();
}

static client *idle_client, *new_client;

static int happen_at_once(void *arg)
{
    (void)arg;
    new_client = dial(0);
    say(new_client, GET("/b"));
    vanish(idle_client);
    return 0;
}

/* Both in one round, in this order: the idle one is closed to make room, and then its event comes. */
TEST an_event_of_a_connection_that_was_closed_in_this_round_is_ignored(void)
{
    server_options options = patient();
    options.ports[0].max_connections = 1;
    options.spare_ns = 1;
    ASSERT_INT(0, begin(&options));
    idle_client = dial(0);
    ASSERT_INT(200, (say(idle_client, GET("/a")), hear(idle_client)));
    ASSERT_INT(0, loop_scheduler_call(server_loop(it.s), happen_at_once, NULL, &(int){0}));
    ASSERT_INT(200, hear(new_client));
    hang_up(new_client);
    ASSERT(ended_well());
    ASSERT_INT(2, counts.connections);
    PASS();
}

/* Without descriptors nobody can be let in; when there are some, those who waited are. */
TEST a_lack_of_descriptors_passes(void)
{
    server_options options = patient();
    struct rlimit usual, none;
    ASSERT_INT(0, begin(&options));
    client *c = dial(0), *second = dial(0);
    ASSERT_INT(200, (say(c, GET("/a")), hear(c)));
    ASSERT_INT(200, (say(second, GET("/a")), hear(second)));
    getrlimit(RLIMIT_NOFILE, &usual);
    none = usual;
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* the lowest that was free: it is the last one now */
    ASSERT(fd >= 0);
    none.rlim_cur = (rlim_t)fd + 1;
    ASSERT_INT(0, setrlimit(RLIMIT_NOFILE, &none));
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port_number(it.s, 0)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ASSERT_INT(0, connect(fd, (struct sockaddr *)&to, sizeof to));
    ASSERT(say(c, GET("/a"))); /* it goes on with those it has */
    ASSERT_INT(200, hear(c));
    ASSERT_INT(2, look().connections);
    ASSERT_INT(0, setrlimit(RLIMIT_NOFILE, &usual));
    ASSERT(EVENTUALLY(look().connections == 3));
    close(fd);
    hang_up(c);
    hang_up(second);
    ASSERT(ended_well());
    PASS();
}

SUITE(limits)
{
    RUN_TEST(a_connection_above_the_limit_waits_until_one_ends);
    RUN_TEST(one_that_is_idle_makes_room_and_a_busy_one_does_not);
    RUN_TEST(one_that_has_not_been_idle_for_long_is_left_alone);
    RUN_TEST(an_event_of_a_connection_that_was_closed_in_this_round_is_ignored);
    RUN_TEST(a_lack_of_descriptors_passes);
}

/* ---- the end of the server */

static bool nobody_listens(void)
{
    int fd = dial_port(0);
    if (fd >= 0) {
        close(fd);
    }
    return fd < 0;
}

TEST what_the_handler_has_is_answered_before_the_end(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0), *idle = dial(0);
    ASSERT_INT(200, (say(idle, GET("/a")), hear(idle)));
    ASSERT(say(c, GET("/hold")));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    server_stop(it.s, PLIM_S(PATIENCE_S));
    ASSERT(hears_end(idle)); /* a client sends again what crosses that */
    hang_up(idle);
    ASSERT(nobody_listens());
    ASSERT(is_healthy()); /* it goes on to the end */
    ASSERT_INT(0, release());
    ASSERT_INT(200, hear(c));
    ASSERT(strstr(c->data, "\r\nConnection: close\r\n") != NULL);
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT_INT(0, await_end());
    counts = server_count(it.s);
    ASSERT_INT(3, counts.answered);
    ASSERT_INT(0, counts.taken_back + counts.turned_away + counts.lost);
    close_server();
    PASS();
}

TEST what_the_handler_has_after_its_time_gets_503(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(say(c, GET("/hold") GET("/never")));
    ASSERT(EVENTUALLY(atomic_load(&it.held_now) == 1));
    int64_t from = plim_now_();
    server_stop(it.s, PLIM_MS(30));
    server_stop(it.s, PLIM_S(PATIENCE_S)); /* only the first call counts */
    ASSERT_INT(503, hear(c));
    ASSERT(plim_now_() - from >= PLIM_MS(30));
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT(is_healthy()); /* server_run waits for the handler */
    ASSERT_INT(ECANCELED, release());
    ASSERT_INT(0, await_end());
    counts = server_count(it.s);
    ASSERT_INT(1, counts.taken_back);
    ASSERT_INT(2, counts.requests); /* with that for the health */
    close_server();
    PASS();
}

TEST what_is_complete_only_after_the_stop_gets_503_and_no_handler(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0), *never = dial(0);
    ASSERT(say(never, "GET /"));
    ASSERT(say(c, "GET / HTTP/1.1\r\n"));
    client *other = dial(0); /* when it has its answer, the server has read the others, too */
    ASSERT_INT(200, (say(other, GET("/a")), hear(other)));
    hang_up(other);
    server_stop(it.s, PLIM_MS(100));
    ASSERT(EVENTUALLY(nobody_listens()));
    ASSERT(say(c, HOST "\r\n"));
    ASSERT_INT(503, hear(c));
    ASSERT_INT(503, hear(never)); /* at the end of the time */
    hang_up(c);
    hang_up(never);
    ASSERT_INT(0, await_end());
    counts = server_count(it.s);
    ASSERT_INT(2, counts.turned_away);
    ASSERT_INT(1, counts.requests);
    close_server();
    PASS();
}

/* More than the server lets in in one round; all are accepted by the system. */
enum { SUDDEN = 40 };

static int stop_here(void *arg)
{
    client **c = arg;
    for (int i = 0; i < SUDDEN; i++) {
        c[i] = dial(0);
        say(c[i], GET("/a"));
    }
    server_stop(it.s, PLIM_S(PATIENCE_S));
    return 0;
}

TEST what_came_before_the_stop_and_was_not_seen_gets_503(void)
{
    server_options options = patient();
    client *c[SUDDEN];
    ASSERT_INT(0, begin(&options));
    ASSERT_INT(0, loop_scheduler_call(server_loop(it.s), stop_here, c, &(int){0}));
    for (int i = 0; i < SUDDEN; i++) {
        ASSERT_INT(503, hear(c[i]));
        ASSERT(hears_end(c[i]));
        hang_up(c[i]);
    }
    ASSERT_INT(0, await_end());
    ASSERT_INT(SUDDEN, server_count(it.s).turned_away);
    close_server();
    PASS();
}

/* On a new connection a client does not expect an end without a word. */
TEST who_has_connected_before_the_stop_and_asks_after_it_gets_503(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(EVENTUALLY(look().connections == 1));
    server_stop(it.s, PLIM_S(PATIENCE_S));
    ASSERT(EVENTUALLY(nobody_listens()));
    ASSERT(say(c, GET("/a")));
    ASSERT_INT(503, hear(c));
    ASSERT(hears_end(c));
    hang_up(c);
    ASSERT_INT(0, await_end());
    ASSERT_INT(1, server_count(it.s).turned_away);
    close_server();
    PASS();
}

TEST who_has_connected_before_the_stop_and_asks_nothing_does_not_keep_it(bool by_the_deadline)
{
    server_options options = patient();
    options.linger_ns = by_the_deadline ? options.linger_ns : PLIM_MS(20);
    ASSERT_INT(0, begin(&options));
    client *c = dial(0);
    ASSERT(EVENTUALLY(look().connections == 1));
    int64_t from = plim_now_();
    server_stop(it.s, by_the_deadline ? PLIM_MS(20) : PLIM_S(PATIENCE_S));
    ASSERT(hears_end(c));
    ASSERT(plim_now_() - from >= PLIM_MS(20));
    hang_up(c);
    ASSERT_INT(0, await_end());
    close_server();
    PASS();
}

/* The end of a listening socket: nobody may connect between the last accept and the close. */
TEST nobody_connects_any_more_and_who_has_connected_can_be_let_in(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_INT(0, bind(fd, (struct sockaddr *)&at, size));
    ASSERT_INT(0, listen(fd, 16));
    ASSERT_INT(0, getsockname(fd, (struct sockaddr *)&at, &size));
    client *early = call_number(ntohs(at.sin_port));
    no_more_clients(fd);
    int late = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ASSERT_INT(-1, connect(late, (struct sockaddr *)&at, size));
    ASSERT_INT(EINPROGRESS, errno);
    struct pollfd writable = {.fd = late, .events = POLLOUT};
    ASSERT_INT(0, poll(&writable, 1, 50));
    int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
    ASSERT(accepted >= 0);
    ASSERT_INT(0, poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0)); /* no other */
    char byte;
    ASSERT(say(early, "a"));
    ASSERT(EVENTUALLY(recv(accepted, &byte, 1, 0) == 1));
    close(fd);
    ASSERT_INT(1, poll(&writable, 1, PATIENCE_S * 1000)); /* it has tried again */
    ASSERT_INT(-1, connect(late, (struct sockaddr *)&at, size));
    ASSERT_INT(ECONNREFUSED, errno);
    close(late);
    close(accepted);
    hang_up(early);
    PASS();
}

static void stop_by_signal(int signal)
{
    (void)signal;
    server_stop(it.s, PLIM_S(PATIENCE_S));
}

TEST a_signal_handler_may_stop_it(void)
{
    server_options options = patient();
    struct sigaction action = {.sa_handler = stop_by_signal}, usual;
    ASSERT_INT(0, sigaction(SIGTERM, &action, &usual));
    ASSERT_INT(0, begin(&options));
    ASSERT(is_healthy());
    ASSERT_INT(0, pthread_kill(it.thread, SIGTERM));
    ASSERT_INT(0, await_end());
    sigaction(SIGTERM, &usual, NULL);
    close_server();
    PASS();
}

TEST it_may_be_stopped_before_it_runs_or_closed_unused(void)
{
    server_options options = patient();
    server *s;
    ASSERT_INT(0, server_open(&s, &options));
    server_close(s);
    ASSERT_INT(0, server_open(&s, &options));
    server_stop(s, 0);
    ASSERT_INT(0, server_run(s));
    server_close(s);
    server_close(NULL);
    PASS();
}

TEST a_server_that_cannot_listen_says_why(void)
{
    server_options options = patient();
    ASSERT_INT(0, begin(&options));
    server *second;
    server_options same = patient();
    same.ports[0].port = server_port_number(it.s, 0);
    ASSERT_INT(EADDRINUSE, server_open(&second, &same));
    same.address = "localhost"; /* a number is wanted */
    ASSERT_INT(EINVAL, server_open(&second, &same));
    same = patient();
    same.max_response = 511;
    ASSERT_INT(EINVAL, server_open(&second, &same));
    ASSERT(second == NULL);
    ASSERT(ended_well());
    PASS();
}

SUITE(the_end)
{
    RUN_TEST(what_the_handler_has_is_answered_before_the_end);
    RUN_TEST(what_the_handler_has_after_its_time_gets_503);
    RUN_TEST(what_is_complete_only_after_the_stop_gets_503_and_no_handler);
    RUN_TEST(what_came_before_the_stop_and_was_not_seen_gets_503);
    RUN_TEST(who_has_connected_before_the_stop_and_asks_after_it_gets_503);
    RUN_TESTp(who_has_connected_before_the_stop_and_asks_nothing_does_not_keep_it, false);
    RUN_TESTp(who_has_connected_before_the_stop_and_asks_nothing_does_not_keep_it, true);
    RUN_TEST(nobody_connects_any_more_and_who_has_connected_can_be_let_in);
    RUN_TEST(a_signal_handler_may_stop_it);
    RUN_TEST(it_may_be_stopped_before_it_runs_or_closed_unused);
    RUN_TEST(a_server_that_cannot_listen_says_why);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(clients_that_leave);
    RUN_SUITE(limits);
    RUN_SUITE(the_end);
    GREATEST_MAIN_END();
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
