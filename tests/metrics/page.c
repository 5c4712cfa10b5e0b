/* SPDX-License-Identifier: MIT
 *
 * Prints the page of pages.h, for promtool.sh.
 */
#include <stdio.h>
#include "../../semaphore.h"
#include "../../weighted_sem.h"
#include "../../bulkhead.h"
#include "../../loop_scheduler.h"
#include "../../metrics.h"

#include "pages.h"

int main(void)
{
    static char page[65536];
    return write_page(page, sizeof page) >= sizeof page || fputs(page, stdout) < 0;
}
