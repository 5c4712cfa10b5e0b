/* So that <plimsoll/weighted_sem.h> is found in a checkout, too. */
#include "../../../weighted_sem.h"
