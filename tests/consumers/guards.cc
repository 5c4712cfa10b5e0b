// guards.cc - permits and weight that are given back when a scope ends: shown in docs/cpp.md
// SPDX-License-Identifier: MIT
#include <plimsoll/bulkhead.h>
#include <plimsoll/semaphore.h>
#include <plimsoll/weighted_sem.h>
#include <cstdio>
#include <utility>

// Takes in its constructor and gives back in its destructor, also when an exception is thrown.
template <typename Object, int (*take)(Object *), int (*give)(Object *)> class guard
{
    Object *held_;
    int error_;

  public:
    explicit guard(Object &object) : held_(nullptr), error_(take(&object))
    {
        if (error_ == 0) {
            held_ = &object;
        }
    }
    guard(guard &&other) noexcept : held_(other.held_), error_(other.error_)
    {
        other.held_ = nullptr;
    }
    guard &operator=(guard &&) = delete;
    ~guard()
    {
        if (held_ != nullptr) {
            give(held_);
        }
    }
    explicit operator bool() const
    {
        return held_ != nullptr;
    }
    int error() const // why it holds nothing: EAGAIN, ESHUTDOWN, ...
    {
        return error_;
    }
};

using permit = guard<csem, csem_acquire, csem_release>;
using permit_now = guard<csem, csem_try_acquire, csem_release>;
using place = guard<bulkhead, bulkhead_enter, bulkhead_leave>;

// Weight is a number, so this guard remembers how much it took.
class weight
{
    weighted_sem *from_;
    uint64_t amount_;

  public:
    weight(weighted_sem &from, uint64_t amount)
        : from_(weighted_sem_acquire(&from, amount) == 0 ? &from : nullptr), amount_(amount)
    {
    }
    weight(const weight &) = delete;
    weight &operator=(const weight &) = delete;
    ~weight()
    {
        if (from_ != nullptr) {
            weighted_sem_release(from_, amount_);
        }
    }
    explicit operator bool() const
    {
        return from_ != nullptr;
    }
};

static csem slots = CSEM_INIT(1);

static int download(bool fails)
{
    permit slot(slots); // waits
    if (!slot) {
        return slot.error(); // ESHUTDOWN
    }
    if (fails) {
        throw 1; // the permit is given back
    }
    permit moved(std::move(slot));     // to whatever outlives this scope
    return permit_now(slots) ? -1 : 0; // it is held
}

int main()
{
    int wrong = download(false);
    try {
        wrong += download(true) + 1;
    } catch (int) {
    }
    wrong += csem_available(&slots) != 1;
    csem_close(&slots);
    wrong += download(false) != ESHUTDOWN;

    bulkhead desk;
    bulkhead_options options{};
    options.permits = 1;
    options.queue = PLIM_NONE;
    wrong += bulkhead_init(&desk, &options) != 0;
    {
        place first(desk), second(desk);
        wrong += !first || second || second.error() != EAGAIN;
    }
    wrong += bulkhead_snapshot(&desk).in_use != 0;
    wrong += bulkhead_destroy(&desk) != 0;

    weighted_sem memory;
    weighted_sem_options sizes{};
    sizes.total = 10;
    wrong += weighted_sem_init(&memory, &sizes) != 0;
    {
        weight half(memory, 5), too_much(memory, 11);
        wrong += !half || too_much || weighted_sem_available(&memory) != 5;
    }
    wrong += weighted_sem_destroy(&memory) != 0; // waits for all weight
    if (wrong != 0) {
        std::printf("error: %d wrong answers\n", wrong);
    }
    return wrong != 0;
}
