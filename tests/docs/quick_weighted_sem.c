/* The program around the quick start of weighted_sem.h: see tests/docs.sh */
#include "weighted_sem.h"

struct model {
    uint64_t gigabytes;
    int refused;
};

static int train(void *m)
{
    return ((struct model *)m)->gigabytes == 2; /* the second fails, with 1 */
}

/* the block */

int main(void)
{
    struct model m[] = {{1, 0}, {2, 0}, {180, 0}, {181, 0}};
    weighted_sem_error failed[16];
    return weighted_sem_init(&gpu, &memory) != 0 || train_all(m, 4, failed) != 1 ||
           failed[0].arg != &m[1] || failed[0].code != 1 || m[2].refused != 0 ||
           m[3].refused != ERANGE || weighted_sem_destroy(&gpu) != 0;
}
