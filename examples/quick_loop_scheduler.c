/* SPDX-License-Identifier: MIT
 *
 * loop_scheduler.h, quickly: three friends talk at the same time, each on a thread, and one thread
 * writes down what they say. The transcript is an ordinary array: only the loop touches it, so there
 * is no lock.
 *
 *   cc -std=c11 -pthread quick_loop_scheduler.c && ./a.out
 */
#include <pthread.h> /* not <threads.h>: ThreadSanitizer does not know C11's threads */
#include <stdio.h>
#include "../loop_scheduler.h"

enum { FRIENDS = 3, LINES = 3 };

typedef struct message {
    loop_scheduler_task task; /* all the memory that a post needs */
    const char *text;
} message;

static const char *const names[FRIENDS] = {"Ada", "Ben", "Cleo"};
static message messages[FRIENDS * LINES] = {
    {.text = "Hello!"},        {.text = "Is anybody here?"}, {.text = "Oh, you are."}, /* Ada */
    {.text = "Hi."},           {.text = "It rains."},        {.text = "Again."},       /* Ben */
    {.text = "Good morning."}, {.text = "Coffee?"},          {.text = "With milk?"},   /* Cleo */
};

static loop_scheduler loop;
static const message *transcript[FRIENDS * LINES];
static int lines;

/* Always on the loop's thread, one after the other. */
static void said(loop_scheduler_task *task, int status)
{
    if (status == 0) { /* ECANCELED: closed before */
        transcript[lines++] = task->arg;
    }
}

/* On a thread of each friend's own. Returns what was refused, or NULL. */
static void *talk(void *first)
{
    for (message *m = first, *end = m + LINES; m < end; m++) {
        m->task = (loop_scheduler_task){.run = said, .arg = m};
        if (loop_scheduler_post(&loop, &m->task) != 0) { /* does not wait for it */
            return m;
        }
    }
    return NULL;
}

/* All that was said is there, and each friend's lines are in the order in which they were said. */
static int check(void)
{
    ptrdiff_t next[FRIENDS] = {0};
    for (int i = 0; i < lines; i++) {
        ptrdiff_t place = transcript[i] - messages, from = place / LINES;
        printf("  %-4s  %s\n", names[from], transcript[i]->text);
        if (place % LINES != next[from]++) {
            return 1;
        }
    }
    return lines == FRIENDS * LINES ? 0 : 1;
}

int main(void)
{
    pthread_t threads[FRIENDS];
    void *refused = NULL;
    int error = loop_scheduler_init(&loop, NULL);
    error = error != 0 ? error : loop_scheduler_start(&loop); /* a thread of its own */
    for (int i = 0; i < FRIENDS && error == 0; i++) {
        error = pthread_create(&threads[i], NULL, talk, &messages[i * LINES]);
    }
    for (int i = 0; i < FRIENDS && error == 0 && refused == NULL; i++) {
        error = pthread_join(threads[i], &refused);
    }
    if (error != 0 || refused != NULL) {
        return 1; /* the loop may still run: all it uses is static */
    }
    /* What is queued is still run; then the loop's thread ends, and the transcript is ours. */
    error = loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_S(30));
    error = error != 0 ? error : loop_scheduler_destroy(&loop);
    return error != 0 ? 1 : check();
}
