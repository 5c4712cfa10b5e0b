/* SPDX-License-Identifier: MIT
 *
 * A loop inside another loop. The program has an epoll loop already, here for a thermometer at the
 * end of a pipe. It takes in a loop_scheduler as one more descriptor. Other threads post to it and
 * start timers. All of that runs on the epoll thread, like the handler of the pipe, so they share
 * their figures without a lock. For Linux; elsewhere it does nothing.
 *
 *   cc -std=c11 -pthread loop_in_epoll.c && ./a.out
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <stdio.h>

#ifdef __linux__

#include <limits.h>
#include <pthread.h> /* not <threads.h>: ThreadSanitizer does not know C11's threads */
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include "../loop_scheduler.h"

enum { POSTERS = 3, POSTS = 200, READINGS = 50, TICKS = 10 };

static loop_scheduler loop;
static int thermometer[2]; /* a pipe: the end to read, the end to write */
static pthread_t home;     /* the epoll thread */

/* All of these are the epoll thread's. */
static int visits, readings, ticks, rings, warmest, rounds, idle, elsewhere;
static bool unplugged, cancelled;

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / PLIM_S(1), .tv_nsec = ns % PLIM_S(1)}, NULL);
}

/* ---- what the loop runs */

static void visit(loop_scheduler_task *task, int status)
{
    (void)task;
    elsewhere += pthread_equal(pthread_self(), home) == 0;
    visits += status == 0;
}

static void tick(loop_scheduler_timer *timer, int status)
{
    if (status != 0) {
        cancelled = true; /* by the last line of this, or if the loop were closed */
        return;
    }
    if (++ticks % 5 == 0) {
        printf("  tick %2d: %3d posts, %2d readings, %d degrees at most\n", ticks, visits, readings,
               warmest);
    }
    if (ticks == TICKS) {
        loop_scheduler_timer_cancel(&loop, timer);
    }
}

static void ring(loop_scheduler_timer *timer, int status)
{
    (void)timer;
    rings += status == 0;
}

/* ---- other threads */

typedef struct poster {
    loop_scheduler_task tasks[POSTS];
    loop_scheduler_timer alarm;
    pthread_t thread;
    int refused;
} poster;

static poster posters[POSTERS];

static void *post_all(void *arg)
{
    poster *p = arg;
    p->alarm = (loop_scheduler_timer){.run = ring};
    /* The epoll thread may be asleep for longer than this: it is woken, and asks anew how long. */
    p->refused += loop_scheduler_timer_start(&loop, &p->alarm, PLIM_MS(3), 0) != 0;
    for (int i = 0; i < POSTS; i++) {
        p->tasks[i] = (loop_scheduler_task){.run = visit};
        p->refused += loop_scheduler_post(&loop, &p->tasks[i]) != 0;
        if (i % 5 == 0) {
            nap(PLIM_MS(1)); /* so that it falls asleep now and then */
        }
    }
    return NULL;
}

static void *measure(void *arg)
{
    (void)arg;
    for (int i = 0; i < READINGS; i++) {
        unsigned char degrees = (unsigned char)(15 + i * 7 % 10);
        if (write(thermometer[1], &degrees, 1) != 1) {
            break;
        }
        nap(PLIM_MS(1));
    }
    close(thermometer[1]);
    return NULL;
}

/* ---- the epoll loop */

static void read_thermometer(void)
{
    unsigned char degrees[16];
    ssize_t n = read(thermometer[0], degrees, sizeof degrees);
    for (ssize_t i = 0; i < n; i++) {
        readings++;
        warmest = degrees[i] > warmest ? degrees[i] : warmest;
    }
    unplugged = n <= 0;
}

/* What epoll_wait wants: milliseconds, rounded up, or it would be asked again and again. */
static int milliseconds(int64_t ns)
{
    if (ns == PLIM_FOREVER) {
        return -1;
    }
    return ns / PLIM_MS(1) >= INT_MAX ? INT_MAX : (int)((ns + PLIM_MS(1) - 1) / PLIM_MS(1));
}

static bool over(void)
{
    return visits == POSTERS * POSTS && rings == POSTERS && cancelled && unplugged;
}

static int serve(int epoll)
{
    int error = 0;
    while (error == 0 && !over()) {
        struct epoll_event events[4];
        int n = epoll_wait(epoll, events, 4, milliseconds(loop_scheduler_next_timeout(&loop)));
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        bool useful = false;
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == thermometer[0]) {
                read_thermometer();
                useful = true;
            }
            if (unplugged) { /* or epoll would tell of its end for ever */
                epoll_ctl(epoll, EPOLL_CTL_DEL, thermometer[0], NULL);
            }
        }
        /* Whether it was the loop's descriptor, or its time, or neither: poll finds out. */
        error = loop_scheduler_poll(&loop);
        useful = useful || error == 0;
        error = error == EAGAIN ? 0 : error;
        rounds++;
        idle += !useful;
    }
    return error;
}

static bool watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int run(int epoll)
{
    static loop_scheduler_timer ticker = {.run = tick};
    pthread_t meter;
    int error = loop_scheduler_timer_start(&loop, &ticker, PLIM_MS(5), PLIM_MS(5));
    error = error != 0 ? error : pthread_create(&meter, NULL, measure, NULL);
    for (int i = 0; i < POSTERS && error == 0; i++) {
        error = pthread_create(&posters[i].thread, NULL, post_all, &posters[i]);
    }
    error = error != 0 ? error : serve(epoll);
    if (error != 0) {
        fprintf(stderr, "cannot go on: %s\n", strerror(error));
        return 1; /* threads may still run: all they use is static */
    }
    int refused = 0;
    pthread_join(meter, NULL);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        refused += posters[i].refused;
    }
    printf("  %d posts, %d alarms, %d ticks, %d readings; %d rounds of epoll, %d of them idle\n",
           visits, rings, ticks, readings, rounds, idle);
    bool right = ticks == TICKS && readings == READINGS && warmest == 24;
    return right && refused == 0 && elsewhere == 0 ? 0 : 1;
}

int main(void)
{
    int epoll = epoll_create1(0);
    home = pthread_self();
    if (epoll < 0 || pipe(thermometer) != 0 || loop_scheduler_init(&loop, NULL) != 0 ||
        !watch(epoll, thermometer[0]) || !watch(epoll, loop_scheduler_fd(&loop))) {
        fprintf(stderr, "cannot begin\n");
        return 1;
    }
    printf("one epoll loop, a pipe and a loop_scheduler in it, %d threads that post\n", POSTERS);
    if (run(epoll) != 0) {
        return 1;
    }
    close(epoll); /* before the loop's descriptor goes */
    close(thermometer[0]);
    /* No thread runs the loop, so this one sees to what is left; there is nothing. */
    int error = loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_S(30));
    error = error != 0 ? error : loop_scheduler_destroy(&loop);
    return error == 0 ? 0 : 1;
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 0;
}

#endif
