/* SPDX-License-Identifier: MIT
 *
 * Our semaphore once more, told not to spin: what is left is the bare parking. A file of its own,
 * because PLIM_SPIN holds for a whole file. */
#undef PLIM_SPIN
#define PLIM_SPIN 0
#include "../semaphore.h"
#include "bench.h"

#define BENCH_ID bench_csem_nospin
#define BENCH_LABEL "csem, no spin"
#define BENCH_KIND BENCH_OURS
#define BENCH_SCENARIOS (BENCH_PINGPONG | BENCH_THIRD)
#define BENCH_TYPE csem
#define BENCH_CREATE(s, permits) (void)csem_init(s, permits)
#define BENCH_DESTROY(s) (void)(s)
#define BENCH_ACQUIRE(s) (void)csem_acquire(s)
#define BENCH_RELEASE(s) (void)csem_release(s)
#include "loops.h"
