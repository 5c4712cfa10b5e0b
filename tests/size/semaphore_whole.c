/* A small user of all of it. */
#include "../../semaphore.h"

int guarded(csem *s);
int guarded(csem *s)
{
    csem_init(s, 3);
    int error = csem_acquire_for(s, PLIM_MS(5));
    if (error == 0) {
        csem_release(s);
    }
    csem_close(s);
    return error;
}
