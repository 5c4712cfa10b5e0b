/* So that <plimsoll/metrics.h> is found in a checkout, too. */
#include "../../../metrics.h"
