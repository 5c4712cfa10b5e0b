// awaiter.cc - C++20 coroutines that await a permit, on one event loop: shown in docs/cpp.md
// SPDX-License-Identifier: MIT
#include <plimsoll/bulkhead.h>
#include <plimsoll/loop_scheduler.h>
#include <plimsoll/semaphore.h>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <utility>

// A job that stands for a coroutine: it is its place in the queue, and then its permit.
struct ticket {
    bulkhead_job job{};
    std::coroutine_handle<> waiting;
    bool refused = false;
};

// A permit. Its end gives the permit back, on whichever thread that is.
class held
{
    ticket *ticket_;

  public:
    explicit held(ticket *t) : ticket_(t)
    {
    }
    held(held &&other) noexcept : ticket_(std::exchange(other.ticket_, nullptr))
    {
    }
    held &operator=(held &&) = delete;
    ~held()
    {
        if (ticket_ != nullptr) {
            bulkhead_finish(&ticket_->job, 0); // calls ended, now or when run has returned
        }
    }
    explicit operator bool() const
    {
        return ticket_ != nullptr;
    }
};

// co_await enter(limit): the coroutine goes on when it has a permit, on the bulkhead's executor.
// No thread waits in the meantime. The result is empty if it was refused: full, or closed.
class enter
{
    bulkhead *limit_;
    ticket *ticket_ = nullptr;

    static int run(bulkhead_job *job) // it has its permit
    {
        std::exchange(static_cast<ticket *>(job->arg)->waiting, nullptr).resume();
        return BULKHEAD_LATER; // and keeps it, until ~held
    }
    static void ended(bulkhead_job *job) // the last touch of the job
    {
        ticket *t = static_cast<ticket *>(job->arg);
        if (t->waiting) { // it was aborted, or has expired: it never ran
            t->refused = true;
            t->waiting.resume();
        }
        delete t;
    }

  public:
    explicit enter(bulkhead &limit) : limit_(&limit)
    {
    }
    bool await_ready() const
    {
        return false;
    }
    bool await_suspend(std::coroutine_handle<> coroutine)
    {
        ticket *t = new ticket;
        t->waiting = coroutine;
        t->job.run = run;
        t->job.done = ended;
        t->job.arg = t;
        t->job.detached = true;
        ticket_ = t;
        if (bulkhead_submit(limit_, &t->job) == 0) {
            return true; // the coroutine may have ended by now: touch nothing
        }
        ticket_ = nullptr;
        delete t;
        return false;
    }
    held await_resume() const
    {
        return held(ticket_ == nullptr || ticket_->refused ? nullptr : ticket_);
    }
};

// co_await after(loop, ns): a timer of the loop.
class after
{
    loop_scheduler *loop_;
    int64_t ns_;
    loop_scheduler_timer timer_{};

    static void fires(loop_scheduler_timer *timer, int)
    {
        std::coroutine_handle<>::from_address(timer->arg).resume();
    }

  public:
    after(loop_scheduler &loop, int64_t ns) : loop_(&loop), ns_(ns)
    {
    }
    bool await_ready() const
    {
        return false;
    }
    bool await_suspend(std::coroutine_handle<> coroutine)
    {
        timer_.run = fires;
        timer_.arg = coroutine.address();
        return loop_scheduler_timer_start(loop_, &timer_, ns_, 0) == 0;
    }
    void await_resume() const
    {
    }
};

// A coroutine that nobody waits for.
struct request {
    struct promise_type {
        request get_return_object()
        {
            return {};
        }
        std::suspend_never initial_suspend()
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::terminate();
        }
    };
};

static loop_scheduler loop;
static bulkhead limit;
static csem over = CSEM_INIT(0);
static int answered, refused; // on the loop's thread alone

static request handle()
{
    {
        held permit = co_await enter(limit);
        if (permit) {
            co_await after(loop, PLIM_MS(1)); // I/O, say
            answered++;
        } else {
            refused++;
        }
    } // gives the permit back
    csem_release(&over);
}

static int bring(void *count) // on the loop
{
    for (int i = 0; i < *static_cast<int *>(count); i++) {
        handle();
    }
    return 0;
}

int main()
{
    int wrong = loop_scheduler_init(&loop, nullptr) != 0 || loop_scheduler_start(&loop) != 0;
    plim_executor executor = loop_scheduler_executor(&loop);
    bulkhead_options options{};
    options.type = BULKHEAD_ASYNC;
    options.permits = 4;
    options.queue = 40;
    options.executor = &executor;
    wrong += bulkhead_init(&limit, &options) != 0;

    int count = 50; // 4 in flight, 40 wait, 6 are refused
    wrong += loop_scheduler_call(&loop, bring, &count, nullptr) != 0;
    for (int i = 0; i < count; i++) {
        wrong += csem_acquire(&over) != 0;
    }
    wrong += bulkhead_close(&limit, BULKHEAD_DRAIN, PLIM_S(30)) != 0;
    wrong += answered != 44 || refused != 6 || bulkhead_snapshot(&limit).peak_in_use != 4;
    count = 3; // closed
    wrong += loop_scheduler_call(&loop, bring, &count, nullptr) != 0 || refused != 9;
    wrong += loop_scheduler_close(&loop, LOOP_SCHEDULER_DRAIN, PLIM_S(30)) != 0;
    wrong += bulkhead_destroy(&limit) != 0 || loop_scheduler_destroy(&loop) != 0;
    if (wrong != 0) {
        std::printf("error: %d wrong answers; %d answered, %d refused\n", wrong, answered, refused);
    }
    return wrong != 0;
}
