/* SPDX-License-Identifier: MIT
 *
 * The peers of bulkhead.h that are written in C++: the same jobs and futures as in C. */
#include "bulkhead_loops.h"

#include <new>

#ifdef HAVE_TBB
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

/* enqueue() rather than a task_group: it is the one that leaves the jobs to the workers. */
struct tbb_pool {
    tbb::global_control threads; /* or there would be no more of them than CPUs */
    tbb::task_arena arena;
    peer_sleepers sleepers;

    explicit tbb_pool(int workers)
        : threads(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers) + 1),
          arena(workers, 0)
    {
        sleepers_create(&sleepers);
        arena.initialize();
    }

    ~tbb_pool()
    {
        sleepers_destroy(&sleepers);
    }

    void submit(peer_job *job)
    {
        peer_job_renew(job);
        arena.enqueue([this, job] { peer_job_run(&sleepers, job); });
    }
};

#define BENCH_ID peer_tbb
#define BENCH_LABEL "TBB task_arena"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_POOL
#define BENCH_TYPE tbb_pool
#define BENCH_CREATE(s, workers, producers) new (s) tbb_pool(workers)
#define BENCH_DESTROY(s) s->~tbb_pool()
#define BENCH_JOB peer_job
#define BENCH_BOUND BENCH_UNBOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) s->submit(job)
#define BENCH_WAIT(s, job) peer_job_wait(&s->sleepers, job)
#include "bulkhead_loops.h"
#endif

#ifdef HAVE_MOODYCAMEL
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <memory>
#include <thread>
#include <vector>

struct moodycamel_pool {
    using queue_type = moodycamel::BlockingConcurrentQueue<peer_job *>;
    queue_type queue;
    std::vector<std::unique_ptr<moodycamel::ProducerToken>> token; /* faster than without them */
    std::vector<std::thread> worker;
    peer_sleepers sleepers;

    moodycamel_pool(int workers, int producers)
        : queue(2 * PLACES, static_cast<size_t>(producers), 1)
    {
        sleepers_create(&sleepers);
        for (int i = 0; i < producers; i++) {
            token.push_back(std::make_unique<moodycamel::ProducerToken>(queue));
        }
        for (int i = 0; i < workers; i++) {
            worker.emplace_back([this] { work(); });
        }
    }

    ~moodycamel_pool()
    {
        for (size_t i = 0; i < worker.size(); i++) {
            queue.enqueue(nullptr);
        }
        for (std::thread &w : worker) {
            w.join();
        }
        sleepers_destroy(&sleepers);
    }

    void work()
    {
        moodycamel::ConsumerToken mine(queue);
        for (;;) {
            peer_job *job;
            queue.wait_dequeue(mine, job);
            if (job == nullptr) {
                return;
            }
            peer_job_run(&sleepers, job);
        }
    }

    void submit(peer_job *job, int producer)
    {
        peer_job_renew(job);
        must(!queue.enqueue(*token[static_cast<size_t>(producer)], job));
    }
};

#define BENCH_ID peer_moodycamel
#define BENCH_LABEL "BlockingConcurrentQueue"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_POOL
#define BENCH_TYPE moodycamel_pool
#define BENCH_CREATE(s, workers, producers) new (s) moodycamel_pool(workers, producers)
#define BENCH_DESTROY(s) s->~moodycamel_pool()
#define BENCH_JOB peer_job
#define BENCH_BOUND BENCH_UNBOUNDED
#define BENCH_PREPARE(job) peer_job_prepare(job)
#define BENCH_SUBMIT(s, job, producer) s->submit(job, producer)
#define BENCH_WAIT(s, job) peer_job_wait(&s->sleepers, job)
#include "bulkhead_loops.h"
#endif
