#include "weighted_sem/manual.h"
#ifndef PLIM_WEIGHTED_SEM_H
#define PLIM_WEIGHTED_SEM_H
#include "weighted_sem/api.h"

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#define PLIM_WANTS_THREADS_
#include "core/threads.h"
#include "core/platform.h"
#include "core/probes.h"
#include "core/counter.h"
#include "core/park.h"
#include "core/list.h"
#include "core/waiter.h"
#include "core/spin_lock.h"
#include "core/gate.h"
#include "core/here.h"
#include "core/workers.h"
#include "core/crew.h"

#include "weighted_sem/word.h"
#include "weighted_sem/object.h"
#include "weighted_sem/calls.h"

#include "weighted_sem/sections.h"
#include "weighted_sem/drains.h"
#include "weighted_sem/admission.h"
#include "weighted_sem/workers.h"
#include "weighted_sem/executor.h"
#include "weighted_sem/enter.h"
#include "weighted_sem/jobs.h"
#include "weighted_sem/bare.h"
#include "weighted_sem/figures.h"
#include "weighted_sem/close.h"
#include "weighted_sem/init.h"

#endif /* PLIM_WEIGHTED_SEM_H */
#include "core/licence.h"
