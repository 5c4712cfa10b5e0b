/* SPDX-License-Identifier: MIT
 *
 * A data race, on purpose: `make tsan` runs this first, and fails if ThreadSanitizer does not
 * report it. A sanitizer that does not see our threads would be silent about everything.
 */
#define PLIM_WANTS_THREADS_
#include "../semaphore.h"
#include "support.h"

static int unprotected;

static plim_thread_result count(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10000; i++) {
        unprotected++;
    }
    return 0;
}

int main(void)
{
    plim_thread a, b;
    start(&a, count, NULL);
    start(&b, count, NULL);
    join(a);
    join(b);
    printf("counted to %d\n", unprotected);
    return 0;
}
