/* The program around the quick start of weighted_sem.h: see tests/docs.sh */
#include <stddef.h>
#include <stdint.h>

struct model {
    uint64_t gigabytes;
};

static int train(void *m)
{
    return ((struct model *)m)->gigabytes == 2; /* the second fails, with 1 */
}

static void report(void *m, int code)
{
    ((struct model *)m)->gigabytes += (uint64_t)code;
}

/* the block */

int main(void)
{
    struct model m[] = {{1}, {2}, {180}};
    return train_all(m, 3) != 0 || m[0].gigabytes != 1 || m[1].gigabytes != 3;
}
