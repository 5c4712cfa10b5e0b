/* SPDX-License-Identifier: MIT
 *
 * The worker of examples/pg_workers, to be built with the variants of tests: with sanitizers, for
 * WORKER=build/tests/pg_workers/worker.tsan tests/pg_workers/faults.sh
 */
#include "../../examples/pg_workers/main.c"
