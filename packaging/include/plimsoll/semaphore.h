/* So that <plimsoll/semaphore.h> is found in a checkout, too. */
#include "../../../semaphore.h"
