/* SPDX-License-Identifier: MIT
 *
 * The example of the README: five threads, two downloads at a time.
 *
 *   cc -std=c11 -pthread limited_downloads.c && ./a.out
 */
#include <stdio.h>
#include <threads.h>
#include "../semaphore.h"

static csem slots = CSEM_INIT(2);

static int download(void *name)
{
    if (csem_acquire_for(&slots, PLIM_S(5)) != 0) {
        return ETIMEDOUT;
    }
    printf("%s: downloading\n", (char *)name);
    thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    csem_release(&slots);
    return 0;
}

int main(void)
{
    thrd_t threads[5];
    for (int i = 0; i < 5; i++) {
        thrd_create(&threads[i], download, (char *[]){"a", "b", "c", "d", "e"}[i]);
    }
    for (int i = 0; i < 5; i++) {
        thrd_join(threads[i], NULL);
    }
}
