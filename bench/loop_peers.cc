/* SPDX-License-Identifier: MIT
 *
 * The peers of loop_scheduler.h that are written in C++: the same tasks as in C. */
#include "loop_loops.h"

#include <new>

#ifdef HAVE_ASIO
#include <asio.hpp>
#include <chrono>

/* 1: it may leave out what only several threads that run it would need. */
struct asio_loop {
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};

    void post(peer_task *task)
    {
        asio::post(io, [task] { task->fn(task); });
    }

    void call(peer_task *task)
    {
        post(task);
        await_call(&task->state);
    }
};

#define BENCH_ID peer_asio
#define BENCH_LABEL "asio post"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE asio_loop
#define BENCH_CREATE(s, producers) new (s) asio_loop
#define BENCH_DESTROY(s) s->~asio_loop()
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) s->post(task)
#define BENCH_CALL(s, task) s->call(task)
#define BENCH_RUN(s) s->io.run()
#define BENCH_END(s) s->io.stop()
#include "loop_loops.h"

/* A timer that is cancelled is told so by the loop, as ours is. */
struct asio_timers {
    asio::io_context io{1};
    uint64_t fired = 0, cancelled = 0;

    void wait(asio::steady_timer &timer)
    {
        timer.async_wait([this](const std::error_code &error) { error ? cancelled++ : fired++; });
    }

    void insert(asio::steady_timer &timer, int64_t delay_ns)
    {
        timer.expires_after(std::chrono::nanoseconds(delay_ns));
        wait(timer);
    }

    /* At a time before this one. */
    void insert_due(asio::steady_timer &timer, int64_t delay_ns)
    {
        timer.expires_at(start + std::chrono::nanoseconds(delay_ns - DELAY_MAX_NS));
        wait(timer);
    }

    void run(uint64_t &counter, uint64_t count)
    {
        counter = 0;
        io.restart();
        while (counter < count) {
            io.poll();
        }
    }

    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/* What is not told yet when this ends would be called in a destructor. */
struct asio_timer {
    alignas(asio::steady_timer) unsigned char memory[sizeof(asio::steady_timer)];

    void prepare(asio_timers *all)
    {
        new (memory) asio::steady_timer(all->io);
    }

    asio::steady_timer &get()
    {
        return *std::launder(reinterpret_cast<asio::steady_timer *>(memory));
    }
};

#define BENCH_ID peer_asio_timers
#define BENCH_LABEL "asio steady_timer"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS TIMERS
#define BENCH_TYPE asio_timers
#define BENCH_CREATE(s, producers) new (s) asio_timers
#define BENCH_DESTROY(s) \
    for (uint64_t i = 0; i < plan->count; i++) { \
        o->timers[i].get().~basic_waitable_timer(); \
    } \
    s->~asio_timers()
#define BENCH_TIMER asio_timer
#define BENCH_PREPARE(s, timer) (timer)->prepare(s)
#define BENCH_ON_LOOP(s, fn, arg) fn(arg)
#define BENCH_INSERT(s, timer, delay_ns) s->insert((timer)->get(), delay_ns)
#define BENCH_CANCEL(s, timer) (timer)->get().cancel()
#define BENCH_TELL(s, count) s->run(s->cancelled, count)
#define BENCH_INSERT_DUE(s, timer, delay_ns) s->insert_due((timer)->get(), delay_ns)
#define BENCH_FIRE(s, count) s->run(s->fired, count)
#include "loop_loops.h"
#endif

#ifdef HAVE_MOODYCAMEL
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <memory>
#include <vector>

struct moodycamel_loop {
    using queue_type = moodycamel::BlockingConcurrentQueue<peer_task *>;
    queue_type queue;
    std::vector<std::unique_ptr<moodycamel::ProducerToken>> token; /* faster than without them */

    explicit moodycamel_loop(int producers)
        : queue(2 * PRODUCERS_MAX * RING, static_cast<size_t>(producers), 1)
    {
        for (int i = 0; i < producers; i++) {
            token.push_back(std::make_unique<moodycamel::ProducerToken>(queue));
        }
    }

    void post(peer_task *task, int producer)
    {
        must(!queue.enqueue(*token[static_cast<size_t>(producer)], task));
    }

    void call(peer_task *task)
    {
        post(task, 0);
        await_call(&task->state);
    }

    void run()
    {
        moodycamel::ConsumerToken mine(queue);
        peer_task *tasks[64];
        for (;;) {
            size_t count = queue.wait_dequeue_bulk(mine, tasks, sizeof tasks / sizeof tasks[0]);
            for (size_t i = 0; i < count; i++) {
                if (tasks[i] == nullptr) {
                    return;
                }
                tasks[i]->fn(tasks[i]);
            }
        }
    }
};

#define BENCH_ID peer_moodycamel
#define BENCH_LABEL "BlockingConcurrentQueue"
#define BENCH_KIND BENCH_PEER
#define BENCH_SCENARIOS ALL_OF_A_LOOP
#define BENCH_TYPE moodycamel_loop
#define BENCH_CREATE(s, producers) new (s) moodycamel_loop(producers)
#define BENCH_DESTROY(s) s->~moodycamel_loop()
#define BENCH_TASK peer_task
#define BENCH_PREPARE(task, body, where) peer_prepare(task, body, where)
#define BENCH_POST(s, task, producer) s->post(task, producer)
#define BENCH_CALL(s, task) s->call(task)
#define BENCH_RUN(s) s->run()
#define BENCH_END(s) must(!s->queue.enqueue(nullptr))
#include "loop_loops.h"
#endif
