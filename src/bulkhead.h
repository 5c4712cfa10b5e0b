#include "bulkhead/manual.h"
#ifndef PLIM_BULKHEAD_H
#define PLIM_BULKHEAD_H
#include "bulkhead/api.h"

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#define PLIM_WANTS_THREADS_
#include "core/threads.h"
#include "core/platform.h"
#include "core/counter.h"
#include "core/park.h"
#include "core/operations.h"
#include "core/list.h"
#include "core/waiter.h"
#include "core/gate.h"
#include "core/spin_lock.h"
#include "core/places.h"
#include "core/stages.h"
#include "core/timers.h"
#include "core/workers.h"

#include "bulkhead/word.h"
#include "bulkhead/objects.h"
#include "bulkhead/calls.h"

#include "bulkhead/events.h"
#include "bulkhead/histogram.h"
#include "bulkhead/timers.h"
#include "bulkhead/sections.h"
#include "bulkhead/admission.h"
#include "bulkhead/attempt.h"
#include "bulkhead/executor.h"
#include "bulkhead/workers.h"
#include "bulkhead/supervisor.h"
#include "bulkhead/deadlock.h"
#include "bulkhead/enter.h"
#include "bulkhead/submit.h"
#include "bulkhead/sync.h"
#include "bulkhead/jobs.h"
#include "bulkhead/invoke.h"
#include "bulkhead/whole.h"
#include "bulkhead/figures.h"
#include "bulkhead/init.h"
#include "bulkhead/options.h"
#include "bulkhead/share.h"

#endif /* PLIM_BULKHEAD_H */
#include "core/licence.h"
