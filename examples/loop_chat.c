/* SPDX-License-Identifier: MIT
 *
 * A chat room on one loop. Four people talk, each on a thread. A clock shows now and then how
 * things are. A skipper answers questions; for that books have to be searched, which is slow. The
 * landlord waits until all are there, and later for the end. Only the loop touches the room's data.
 * So there is neither a lock nor an atomic in this file, and the counts are exact.
 *
 *   cc -std=c11 -pthread loop_chat.c && ./a.out
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep, the monotonic clock */
#include <pthread.h>            /* not <threads.h>: ThreadSanitizer does not know C11's threads */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "../bulkhead.h"
#include "../loop_scheduler.h"

enum { PEOPLE = 4, LINES = 5 };
#define PERIOD PLIM_MS(50) /* of the clock */

typedef enum kind {
    SAY,
    ASK,   /* the skipper */
    REGRET /* said a little later, unless it is taken back before */
} kind;

typedef struct person person;

typedef struct line {
    person *from;
    kind kind;
    const char *text, *answer;
    loop_scheduler_task task;         /* to say it, or: */
    loop_scheduler_timer later;       /* to say it later */
    loop_scheduler_coroutine skipper; /* to answer it */
} line;

struct person {
    line lines[LINES];
    loop_scheduler_task arrival, departure;
    const char *name;
    int heard;                           /* the loop's */
    int said, taken_back, figure, error; /* of the person's own thread */
};

static person people[PEOPLE];

typedef struct remark {
    int pause_ms;
    kind kind;
    const char *text;
} remark;

static const struct {
    const char *name;
    remark remarks[LINES];
} script[PEOPLE] = {
    {"Ada",
     {{0, SAY, "hello, everybody"},
      {20, ASK, "skipper, when is the tide high?"},
      {60, SAY, "then we sail at four"},
      {20, SAY, "who brings the sandwiches?"},
      {30, SAY, "thank you, Dan"}}},
    {"Ben",
     {{10, SAY, "morning"},
      {15, ASK, "skipper, how is the weather?"},
      {40, SAY, "I knew it"},
      {60, SAY, "I shall bring an umbrella"},
      {10, SAY, "and another one"}}},
    {"Cleo",
     {{5, SAY, "hi"},
      {30, ASK, "skipper, what is the meaning of life?"},
      {70, SAY, "well, I thought I might ask"},
      {10, SAY, "cheese, please"},
      {20, SAY, "see you at four"}}},
    {"Dan",
     {{15, SAY, "is this the boat or the kitchen?"},
      {30, REGRET, "I never liked boats"},
      {20, ASK, "skipper, any weather in the harbour?"},
      {45, SAY, "sandwiches: me"},
      {30, SAY, "but no cucumber"}}},
};

static struct {
    int came, left, heard, unsaid;
    int asked, answered, beats, early;
    bool clock_stopped, landlord_left;
} room; /* the loop's */

static loop_scheduler loop;
static bulkhead library; /* two books may be searched at once */
static plim_executor librarians;
static loop_scheduler_timer heartbeat;
static loop_scheduler_event all_here;
static int64_t began;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return PLIM_S((int64_t)t.tv_sec) + t.tv_nsec;
}

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / PLIM_S(1), .tv_nsec = ns % PLIM_S(1)}, NULL);
}

static void show(const char *who, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("  %3d ms  %8s  ", (int)((now() - began) / PLIM_MS(1)), who);
    vprintf(format, list);
    printf("\n");
    va_end(list);
}

/* ---- coroutines: they wait wherever they like, and the room goes on */

/* Blocks, so it is done by a worker of the bulkhead. It leaves the loop's things alone. */
static int search_books(void *arg)
{
    static const char *const book[][2] = {
        {"tide", "high water is at ten past four"},
        {"weather", "rain at first, more of it later"},
    };
    line *l = arg;
    nap(PLIM_MS(20));
    for (size_t i = 0; i < sizeof book / sizeof book[0]; i++) {
        if (strstr(l->text, book[i][0]) != NULL) {
            l->answer = book[i][1];
            return 0;
        }
    }
    return ENOENT;
}

/* One for each question, so a hard one does not hold up the others. */
static void skipper(loop_scheduler_coroutine *co)
{
    line *l = co->arg;
    LOOP_BEGIN(co);
    LOOP_OFFLOAD(co, &librarians, search_books, l);
    if (co->status == 0) {
        LOOP_SLEEP(co, PLIM_MS(10)); /* the skipper types with one finger */
    }
    if (co->status == 0) {
        show("skipper", "%s, %s", l->from->name, co->result == 0 ? l->answer : "42?");
        room.answered++;
    }
    LOOP_END(co);
}

static void landlord(loop_scheduler_coroutine *co)
{
    LOOP_BEGIN(co);
    LOOP_AWAIT(co, &all_here);
    if (co->status == 0) {
        show("landlord", "welcome, all %d of you", PEOPLE);
    }
    while (co->status == 0) {
        LOOP_SLEEP(co, PLIM_S(3600)); /* then it would be closing time anyway */
    }
    show("landlord", "we are closing, good night"); /* ECANCELED: the loop is being closed */
    room.landlord_left = true;
    LOOP_END(co);
}

/* ---- tasks, a timer and a function to call: all on the loop */

static void arrive(loop_scheduler_task *task, int status)
{
    const person *p = task->arg;
    if (status == 0) {
        show("", "%s comes in", p->name);
        if (++room.came == PEOPLE) {
            loop_scheduler_event_set(&all_here);
        }
    }
}

static void hear(line *l)
{
    show(l->from->name, "%s", l->text);
    room.heard++;
    l->from->heard++;
    if (l->kind == ASK) {
        l->skipper = (loop_scheduler_coroutine){.run = skipper, .arg = l};
        room.asked += loop_scheduler_spawn(&loop, &l->skipper) == 0;
    }
}

static void say(loop_scheduler_task *task, int status)
{
    if (status == 0) {
        hear(task->arg);
    }
}

static void say_later(loop_scheduler_timer *timer, int status)
{
    line *l = timer->arg;
    if (status == 0) {
        hear(l);
    } else {
        show("", "%s was about to say something", l->from->name);
        room.unsaid++;
    }
}

static void leave(loop_scheduler_task *task, int status)
{
    const person *p = task->arg;
    if (status == 0) {
        show("", "%s goes; lines heard: %d, taken back: %d", p->name, p->figure, p->taken_back);
        room.left++;
    }
}

static void beat(loop_scheduler_timer *timer, int status)
{
    if (status != 0) {
        room.clock_stopped = true;
        return;
    }
    room.beats++;
    room.early += now() - began < PERIOD * (room.beats + (int64_t)timer->missed);
    show("~", "%d here, %d lines heard, %d to be answered", room.came - room.left, room.heard,
         room.asked - room.answered);
}

static int lines_heard(void *arg)
{
    return ((person *)arg)->heard;
}

static bool all_gone(void)
{
    return room.left == PEOPLE && room.answered == room.asked;
}

/* ---- a person, on a thread */

static void *person_main(void *arg)
{
    person *p = arg;
    ptrdiff_t who = p - people;
    p->name = script[who].name;
    p->arrival = (loop_scheduler_task){.run = arrive, .arg = p};
    p->error = loop_scheduler_post(&loop, &p->arrival);
    for (int i = 0; i < LINES && p->error == 0; i++) {
        const remark *r = &script[who].remarks[i];
        line *l = &p->lines[i];
        nap(PLIM_MS(r->pause_ms));
        *l = (line){.from = p, .kind = r->kind, .text = r->text};
        l->task = (loop_scheduler_task){.run = say, .arg = l};
        l->later = (loop_scheduler_timer){.run = say_later, .arg = l};
        if (l->kind == REGRET) {
            p->error = loop_scheduler_timer_start(&loop, &l->later, PLIM_S(1), 0);
            nap(PLIM_MS(5));
            /* 0: it will not be said, and its run is told ECANCELED. Else this came too late. */
            p->taken_back += loop_scheduler_timer_cancel(&loop, &l->later) == 0;
        } else {
            p->error = loop_scheduler_post(&loop, &l->task);
        }
        p->said += p->error == 0;
    }
    if (p->error == 0) { /* waits its turn behind what was posted, and for the answer */
        p->error = loop_scheduler_call(&loop, lines_heard, p, &p->figure);
    }
    if (p->error == 0) {
        p->departure = (loop_scheduler_task){.run = leave, .arg = p};
        p->error = loop_scheduler_post(&loop, &p->departure);
    }
    return NULL;
}

/* ---- the evening */

static int wrong;

static void check(bool right, const char *what)
{
    printf("  %s  %s\n", right ? "right" : "WRONG", what);
    wrong += !right;
}

static void check_all(const loop_scheduler_stats *s)
{
    int said = 0, taken_back = 0;
    bool figures = true;
    for (const person *p = people; p < people + PEOPLE; p++) {
        said += p->said;
        taken_back += p->taken_back;
        figures = figures && p->error == 0 && p->figure == p->said - p->taken_back;
    }
    check(said == PEOPLE * LINES && room.heard + room.unsaid == said,
          "each line was heard, or taken back");
    check(room.unsaid == taken_back, "and the latter only if cancel had said so");
    check(figures, "what the loop told each of them was exact");
    check(room.asked == PEOPLE && room.answered == room.asked, "each question has its answer");
    check(room.beats > 0 && room.early == 0, "the clock was never early");
    check(room.clock_stopped && room.landlord_left, "the end was told to those who waited");
    check(s->posted == s->ran + s->cancelled &&
              s->queued + s->timers + s->suspended + s->offloaded == 0,
          "nothing is left in the loop");
}

int main(void)
{
    pthread_t threads[PEOPLE];
    static loop_scheduler_coroutine host = {.run = landlord};
    bulkhead_options two = {.type = BULKHEAD_ASYNC, .permits = 2, .name = "library"};
    if (loop_scheduler_init(&loop, NULL) != 0 || bulkhead_init(&library, &two) != 0) {
        return 1;
    }
    librarians = bulkhead_executor(&library);
    heartbeat = (loop_scheduler_timer){.run = beat};
    began = now();
    int error = loop_scheduler_timer_start(&loop, &heartbeat, PERIOD, PERIOD);
    error = error != 0 ? error : loop_scheduler_spawn(&loop, &host);
    for (int i = 0; i < PEOPLE && error == 0; i++) {
        error = pthread_create(&threads[i], NULL, person_main, &people[i]);
    }
    /* The loop runs here, on the main thread, until the last one has gone. */
    while (error == 0 && !all_gone()) {
        error = loop_scheduler_run_once(&loop, PLIM_S(20));
    }
    if (error != 0) {
        fprintf(stderr, "the evening went wrong: %s\n", strerror(error));
        return 1;
    }
    error = loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_S(30));
    for (int i = 0; i < PEOPLE && error == 0; i++) {
        error = pthread_join(threads[i], NULL);
    }
    loop_scheduler_stats s = loop_scheduler_snapshot(&loop);
    error = error != 0 ? error : loop_scheduler_destroy(&loop);
    error = error != 0 ? error : bulkhead_close(&library, BULKHEAD_DRAIN, PLIM_S(30));
    error = error != 0 ? error : bulkhead_destroy(&library);
    check_all(&s);
    return error == 0 && wrong == 0 ? 0 : 1;
}
