/* The program around a block of README.md: see tests/docs.sh */
#include "weighted_sem.h"

typedef struct model {
    uint64_t gigabytes;
    int trained;
} model;

static model models[] = {{100, 0}, {81, 0}, {180, 0}, {1, 0}};
static size_t next;

static model *next_model(void)
{
    return next < 4 ? &models[next++] : NULL;
}

static int train(void *m)
{
    ((model *)m)->trained++;
    return ((model *)m)->gigabytes == 81 ? 5 : 0;
}

int main(void)
{
    weighted_sem gpu;
    weighted_sem_error errors[64];
    model *m;
    size_t n;
    int error = 0;
    weighted_sem_init(&gpu, &(weighted_sem_options){.total = 180});
    /* the block */
    n = weighted_sem_extract_errors(&gpu, errors, 64);
    bool all = models[0].trained + models[1].trained + models[2].trained + models[3].trained == 4;
    bool told = n == 1 && errors[0].arg == &models[1] && errors[0].code == 5;
    return weighted_sem_destroy(&gpu) != 0 || error != 0 || !all || !told;
}
