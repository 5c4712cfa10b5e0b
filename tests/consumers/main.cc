// main.cc - a C++ program that uses the objects of a C library, and its own
// SPDX-License-Identifier: MIT
#include "dock.h"
#include <semaphore.h> // POSIX's
#include <cstdio>
#include <thread> // includes it as well, as of C++20

static int lift(bulkhead_job *job)
{
    ++*static_cast<int *>(job->arg);
    return 0;
}

#ifndef WITHOUT_DOCK
static int calls_the_crew(void *loop)
{
    return crew_calls_back(static_cast<loop_scheduler *>(loop));
}
#endif

static csem turn = CSEM_INIT(0);

int main()
{
    sem_t sem;
    int wrong = sem_init(&sem, 0, 1) != 0 || sem_destroy(&sem) != 0;
    int cargo = 0;

    std::thread other([&cargo] {
        cargo = 1;
        csem_release(&turn);
    });
    wrong += csem_acquire(&turn) != 0 || cargo != 1;
    other.join();

#ifndef WITHOUT_DOCK
    dock *d = dock_open();
    if (d == nullptr) {
        return 1;
    }
    wrong += crew_works(d);
    bulkhead_job job{};
    job.run = lift;
    job.arg = &cargo;
    wrong += dock_submit(&job) != 0 || bulkhead_wait(&job, PLIM_FOREVER) != 0 || cargo != 2;
    wrong += dock_close();

    // Our loop waits for that of the crew, which calls ours: a file in C, but the same program.
    loop_scheduler loop;
    int result = 0;
    wrong += loop_scheduler_init(&loop, nullptr) != 0 || loop_scheduler_start(&loop) != 0;
    wrong += loop_scheduler_call(&loop, calls_the_crew, &loop, &result) != 0;
    if (result != EDEADLK) {
        std::printf("error: two loops that wait for each other: %d, not EDEADLK\n", result);
        wrong++;
    }
    wrong += loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_FOREVER) != 0;
    wrong += loop_scheduler_destroy(&loop) != 0;
#else
    bulkhead b;
    bulkhead_options options{};
    options.type = BULKHEAD_ASYNC;
    wrong += bulkhead_init(&b, &options) != 0;
    bulkhead_job job{};
    job.run = lift;
    job.arg = &cargo;
    wrong += bulkhead_submit(&b, &job) != 0 || bulkhead_wait(&job, PLIM_FOREVER) != 0 || cargo != 2;
    wrong += bulkhead_close(&b, BULKHEAD_DRAIN, PLIM_FOREVER) != 0 || bulkhead_destroy(&b) != 0;
#endif
    if (wrong != 0) {
        std::printf("error: %d wrong answers\n", wrong);
    }
    return wrong != 0;
}
