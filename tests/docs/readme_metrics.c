/* The program around the lines on metrics.h in README.md: see tests/docs.sh */
#include "bulkhead.h"
#include "metrics.h"

static bulkhead database, mailer;
static char page[32768];

static size_t write_page(void)
{
    size_t length;
    bulkhead_stats db = bulkhead_snapshot(&database), post = bulkhead_snapshot(&mailer);
    /* the block */
    return length;
}

int main(void)
{
    return bulkhead_init(&database, NULL) != 0 || bulkhead_init(&mailer, NULL) != 0 ||
           write_page() >= sizeof page;
}
