/* So that <plimsoll/bulkhead.h> is found in a checkout, too. */
#include "../../../bulkhead.h"
