/* SPDX-License-Identifier: MIT
 *
 * A tour of semaphore.h, live: limited workers, waiting, rejection, a limit that changes, an end.
 * The first part of `make tour`. With an argument it runs faster, for the tests.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include "../semaphore.h"

enum { WORKERS = 8, PERMITS = 3 };

static csem gate = CSEM_INIT(PERMITS);
static atomic_char state[WORKERS + 1]; /* '.' idle, '-' waiting, '#' inside, 'x' turned away */
static atomic_int inside, most, served, rejected, sent_home;
static atomic_bool impatient;
static int64_t unit = PLIM_MS(60);

static void nap(int64_t ns)
{
    thrd_sleep(&(struct timespec){.tv_sec = ns / PLIM_S(1), .tv_nsec = ns % PLIM_S(1)}, NULL);
}

static int worker(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (unsigned turn = 0;; turn++) {
        atomic_store(&state[me], '-');
        int error = atomic_load(&impatient) ? csem_try_acquire(&gate) : csem_acquire(&gate);
        if (error == ESHUTDOWN) {
            atomic_store(&state[me], ' ');
            atomic_fetch_add(&sent_home, 1);
            return 0;
        }
        if (error == EAGAIN) {
            atomic_store(&state[me], 'x');
            atomic_fetch_add(&rejected, 1);
            nap(unit);
            continue;
        }
        int now = atomic_fetch_add(&inside, 1) + 1;
        for (int old = atomic_load(&most);
             now > old && !atomic_compare_exchange_weak(&most, &old, now);) {}
        atomic_store(&state[me], '#');
        nap(unit + unit * ((me + (int)(turn % 3)) % 3) / 2);
        atomic_store(&state[me], '.');
        atomic_fetch_sub(&inside, 1);
        atomic_fetch_add(&served, 1);
        csem_release(&gate);
        nap(unit / 2);
    }
}

static void show(const char *what, int lines)
{
    printf("\n%s\n", what);
    for (int i = 0; i < lines; i++) {
        char row[WORKERS + 1] = {0};
        for (int j = 0; j < WORKERS; j++) {
            row[j] = atomic_load(&state[j]);
        }
        printf("  [%s]  available %2d, waiting %u, served %d, turned away %d\n", row,
               (int)csem_available(&gate), (unsigned)csem_waiters(&gate), atomic_load(&served),
               atomic_load(&rejected));
        fflush(stdout);
        nap(unit);
    }
}

int main(int argc, char **argv)
{
    thrd_t threads[WORKERS];
    (void)argv;
    unit = argc > 1 ? PLIM_MS(5) : unit;
    memset((void *)state, '.', WORKERS);
    printf("semaphore.h: a csem is %u bytes; %d workers, %d permits.\n"
           "  .  idle   -  waiting   #  inside   x  turned away\n",
           (unsigned)sizeof(csem), WORKERS, PERMITS);
    for (int i = 0; i < WORKERS; i++) {
        thrd_create(&threads[i], worker, (void *)(intptr_t)i);
    }
    show("csem_acquire: at most three inside, the others wait their turn", 8);
    int most_of_three = atomic_load(&most);

    atomic_store(&impatient, true);
    show("csem_try_acquire: who finds no permit is turned away, at once", 8);
    atomic_store(&impatient, false);

    csem_reduce(&gate, 2);
    show("csem_reduce(2): one permit is left; nobody is thrown out, the debt is paid as they leave",
         8);
    csem_release_n(&gate, 5);
    show("csem_release_n(5): now there are six", 8);

    csem_close(&gate);
    for (int i = 0; i < WORKERS; i++) {
        thrd_join(threads[i], NULL);
    }
    show("csem_close: who waits is sent home, who is inside finishes first", 1);

    printf(
        "\nnever more than %d inside with %d permits; %d of %d workers sent home; %d permits back "
        "in place\n",
        most_of_three, PERMITS, atomic_load(&sent_home), WORKERS, (int)csem_available(&gate));
    return most_of_three > PERMITS || atomic_load(&sent_home) != WORKERS ||
           csem_available(&gate) != PERMITS + 3;
}
