/* The program around the blocks of docs/recipes.md: see tests/docs.sh */
#include <stdio.h>
#include <threads.h>
#include "semaphore.h"
#include "bulkhead.h"

/* the block */

int main(void)
{
    example();
}
