/* SPDX-License-Identifier: MIT
 *
 * The example of the README: at most 2 downloads at once, at most 8 that wait.
 *
 *   cc -std=c11 -pthread limited_downloads.c && ./a.out
 */
#include <stdio.h>
#include "../bulkhead.h"

static bulkhead limit;

static int download(bulkhead_job *job)
{
    return puts(job->arg) < 0;
}

int main(void)
{
    bulkhead_job a = {.run = download, .arg = "a"}, b = {.run = download, .arg = "b"};
    bulkhead_init(&limit, &(bulkhead_options){.type = BULKHEAD_ASYNC, .permits = 2, .queue = 8});
    bulkhead_submit(&limit, &a); // 0, or EAGAIN: 2 run and 8 wait
    bulkhead_submit(&limit, &b);
    return bulkhead_close(&limit, BULKHEAD_DRAIN, PLIM_S(30)); // waits for both
}
