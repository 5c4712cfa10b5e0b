/* A small user of all of it: init, start, drain, errors, destroy. */
#include "../../weighted_sem.h"

size_t train(int (*fn)(void *), void **models, int count, weighted_sem_error *errors);
size_t train(int (*fn)(void *), void **models, int count, weighted_sem_error *errors)
{
    weighted_sem w;
    weighted_sem_options options = {.total = 8};
    size_t failed = 0;
    if (weighted_sem_init(&w, &options) == 0) {
        for (int i = 0; i < count; i++) {
            weighted_sem_start(&w, 2, fn, models[i]);
        }
        weighted_sem_drain(&w, PLIM_FOREVER);
        failed = weighted_sem_extract_errors(&w, errors, 16);
        weighted_sem_destroy(&w);
    }
    return failed;
}
