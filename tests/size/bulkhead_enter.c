/* A file that only enters and leaves; somebody else has initialised the bulkhead. */
#include "../../bulkhead.h"

int guarded(bulkhead *b);
int guarded(bulkhead *b)
{
    int error = bulkhead_enter(b);
    return error != 0 ? error : bulkhead_leave(b);
}
