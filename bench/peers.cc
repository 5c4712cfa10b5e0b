/* SPDX-License-Identifier: MIT
 *
 * The peers that are written in C++. */
#include "bench.h"

#include <new>

#ifdef HAVE_STD_SEMAPHORE
#include <semaphore>

#define BENCH_ID bench_std_semaphore
#define BENCH_LABEL "std::counting_semaphore"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE std::counting_semaphore<>
#define BENCH_CREATE(s, permits) new (s) std::counting_semaphore<>(permits)
#define BENCH_DESTROY(s) s->~counting_semaphore()
#define BENCH_ACQUIRE(s) s->acquire()
#define BENCH_RELEASE(s) s->release()
#include "loops.h"
#endif

#ifdef HAVE_LIGHTWEIGHT
#include <concurrentqueue/concurrentqueue.h> /* the next one does not stand alone */
#include <concurrentqueue/lightweightsemaphore.h>

#define BENCH_ID bench_lightweight
#define BENCH_LABEL "LightweightSemaphore"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS BENCH_ALL
#define BENCH_TYPE moodycamel::LightweightSemaphore
#define BENCH_CREATE(s, permits) new (s) moodycamel::LightweightSemaphore(permits)
#define BENCH_DESTROY(s) s->~LightweightSemaphore()
#define BENCH_ACQUIRE(s) s->wait()
#define BENCH_RELEASE(s) s->signal()
#include "loops.h"
#endif
