/* The program around the quick start of metrics.h: see tests/docs.sh */
#include <string.h>
#include "bulkhead.h"
#include "loop_scheduler.h"

static bulkhead database, mailer;
static loop_scheduler loop;

/* the block */

int main(void)
{
    static char page[32768];
    if (bulkhead_init(&database, NULL) != 0 || bulkhead_init(&mailer, NULL) != 0 ||
        loop_scheduler_init(&loop, NULL) != 0) {
        return 1;
    }
    size_t length = write_page(page, sizeof page);
    return length >= sizeof page || length != strlen(page) ||
           strstr(page, "\nbulkhead_permits{name=\"db\"} 1\nbulkhead_permits{name=\"mail\"} 1\n") ==
               NULL ||
           strstr(page, "\nloop_scheduler_queued{name=\"main\"} 0\n") == NULL;
}
