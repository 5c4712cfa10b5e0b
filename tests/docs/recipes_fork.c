/* The program around the block of docs/recipes.md that forks: see tests/docs.sh */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "semaphore.h"
#include "bulkhead.h"

/* the block */

int main(void)
{
    example();
}
