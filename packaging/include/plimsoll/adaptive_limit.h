/* So that <plimsoll/adaptive_limit.h> is found in a checkout, too. */
#include "../../../adaptive_limit.h"
