/* The program around the lines on adaptive_limit.h in README.md: see tests/docs.sh */
#include "adaptive_limit.h"
#include "bulkhead.h"

static adaptive_limit found;
static bulkhead api;

int main(void)
{
    /* the block */
    return bulkhead_snapshot(&api).permits != 4;
}
