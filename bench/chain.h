/* SPDX-License-Identifier: MIT */
#ifndef PLIM_BENCH_CHAIN_H
#define PLIM_BENCH_CHAIN_H

#include "bench.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The least that handing on to a sleeping thread can cost: each sleeps on a word of its own, in the
 * order in which they came, and wakes the next. */
enum { LIMIT_CHAIN = 16384 };

typedef struct limit_chain {
    BENCH_ALIGNED uint32_t tickets, served;
    struct {
        uint32_t go;
        char rest[60]; /* of its cache line */
    } place[LIMIT_CHAIN];
} limit_chain;

static inline void limit_chain_create(limit_chain *c)
{
    c->tickets = c->served = 0;
    for (int i = 0; i < LIMIT_CHAIN; i++) {
        c->place[i].go = i == 0;
    }
}

static inline void limit_chain_take(limit_chain *c)
{
    uint32_t ticket = __atomic_fetch_add(&c->tickets, 1, __ATOMIC_RELAXED);
    uint32_t *go = &c->place[ticket % LIMIT_CHAIN].go;
    while (__atomic_load_n(go, __ATOMIC_ACQUIRE) == 0) {
        syscall(SYS_futex, go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    }
}

static inline void limit_chain_give(limit_chain *c)
{
    uint32_t *go = &c->place[++c->served % LIMIT_CHAIN].go; /* only the holder comes here */
    __atomic_store_n(go, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#endif

#endif
