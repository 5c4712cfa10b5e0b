#include "semaphore/manual.h"
/* A C99 or C++98 file that means the system's <semaphore.h> sees only the end of this one. */
#if !defined(PLIM_SEMAPHORE_H) && ((defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L) || \
                                   (defined(__cplusplus) && __cplusplus >= 201103L))
#define PLIM_SEMAPHORE_H
#include "semaphore/api.h"

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#include "core/threads.h"
#include "core/platform.h"
#include "core/probes.h"
#include "core/counter.h"
#include "core/park.h"
#include "core/operations.h"

#include "semaphore/csem.h"
#include "semaphore/pool.h"

#endif /* PLIM_SEMAPHORE_H */
#include "core/licence.h"
#include "semaphore/posix.h"
