/* A file that only acquires and releases. */
#include "../../weighted_sem.h"

int guarded(weighted_sem *w);
int guarded(weighted_sem *w)
{
    int error = weighted_sem_acquire(w, 2);
    return error != 0 ? error : weighted_sem_release(w, 2);
}
