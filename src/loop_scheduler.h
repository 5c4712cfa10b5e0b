#include "loop_scheduler/manual.h"
#ifndef PLIM_LOOP_SCHEDULER_H
#define PLIM_LOOP_SCHEDULER_H
#include "loop_scheduler/api.h"

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#define PLIM_WANTS_THREADS_
#include "core/threads.h"
#include "core/platform.h"
#include "core/probes.h"
#include "core/counter.h"
#include "core/park.h"
#include "core/operations.h"
#include "core/list.h"
#include "core/waiter.h"
#include "core/spin_lock.h"
#include "core/here.h"
#include "core/timers.h"
#include "core/stages.h"
#include "core/workers.h"
#include "bulkhead/waits.h"
#include "core/await.h"

#include "loop_scheduler/overview.h"
#include "loop_scheduler/types.h"
#include "loop_scheduler/word.h"
#include "loop_scheduler/queue.h"
#include "loop_scheduler/turn.h"
#include "loop_scheduler/descriptor.h"
#include "loop_scheduler/run.h"
#include "loop_scheduler/thread.h"
#include "loop_scheduler/post.h"
#include "loop_scheduler/call.h"
#include "loop_scheduler/timer_calls.h"
#include "loop_scheduler/offload.h"
#include "loop_scheduler/coroutines.h"
#include "loop_scheduler/coroutine_steps.h"
#include "loop_scheduler/close.h"
#include "loop_scheduler/init.h"
#include "loop_scheduler/calls.h"
#include "loop_scheduler/health.h"

#endif /* PLIM_LOOP_SCHEDULER_H */
#include "core/licence.h"
