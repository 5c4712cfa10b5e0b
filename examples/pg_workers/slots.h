/* SPDX-License-Identifier: MIT
 *
 * The places for jobs in this process, one for each permit: who has a place has a permit, and the
 * place is where the job is kept, with its lease.
 */
#ifndef PG_WORKERS_SLOTS_H
#define PG_WORKERS_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "../../bulkhead.h"
#include "../../semaphore.h"
#include "config.h"

/* What is to become of a job that has ended and that the database does not know of. */
enum slot_end {
    SLOT_SETTLED,   /* it knows */
    SLOT_FAILED,    /* it failed, or nobody knows whether its end went through */
    SLOT_UNTOUCHED, /* it was not begun, or we have broken it off: the attempt does not count */
    SLOT_LOST       /* its lease has run out here */
};

/* FREE: in the pool. TAKEN: a worker has it, to claim a job. ACTIVE: a job is leased, waits for its
 * connection or runs. ENDED: it is over, and the database is to be told. Changes under the lock. */
enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_ACTIVE, SLOT_ENDED };

typedef struct slot {
    bulkhead_job job;
    uint32_t place;
    enum slot_state state;
    enum slot_end end;
    /* The job, as the database wrote it. Changes only while the slot is TAKEN, under the lock. */
    char id[24], attempt[12], worker[100], kind[64], payload[1000];
    bool in_pool;
    char error[200];
    _Atomic int64_t lease_ends; /* by clock_ns, with the margin taken off */
    _Atomic int64_t must_end;   /* by clock_ns; as if for ever until it has begun */
} slot;

int slots_begin(const config *c);
void slots_end(void);

/* Takes a slot, waits for it; then as many as are free, up to most. Returns how many; 0: closed. */
int slots_take(uint32_t places[], int most);
void slots_give_back(const uint32_t places[], int count);
slot *slots_at(uint32_t place);

/* A job has been claimed for a TAKEN slot: fills it in, so that its lease is renewed. */
void slots_activate(slot *s, const char *worker, const char *const fields[5], int64_t lease_ends);

/* The job is over. SETTLED frees the slot; all else is left for the keeper of leases. */
void slots_over(slot *s, enum slot_end end);

/* No slot is taken any more. */
void slots_close(void);

/* Is the lease ours, and the result wanted? Jobs ask now and then. */
bool slots_wanted(const void *slot);

/* From now on no job is wanted: they are to break off. */
void slots_break_off(void);
bool slots_broken_off(void);

/* For the keeper: calls f with each slot of that state, under the lock. */
void slots_each(enum slot_state state, void (*f)(slot *s, void *arg), void *arg);
/* An ENDED slot that the database knows of, or will forget by itself, is freed. */
void slots_told(slot *s);
/* A lease has been renewed. */
void slots_renewed(const char *id, const char *attempt, int64_t lease_ends);

int slots_in_use(void);

/* Rings when a slot is ENDED. */
extern csem slots_bell;

#endif
