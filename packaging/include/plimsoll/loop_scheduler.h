/* So that <plimsoll/loop_scheduler.h> is found in a checkout, too. */
#include "../../../loop_scheduler.h"
