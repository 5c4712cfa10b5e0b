/* SPDX-License-Identifier: MIT
 *
 * The places for jobs: see slots.h.
 */
#include "slots.h"

#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include "db.h"

csem slots_bell = CSEM_INIT(0);

static csem_pool places; /* an index of it is a permit, and a slot */
static csem_pool_link *links;
static slot *slots;
static uint32_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int in_use;
static atomic_bool broken_off;

int slots_begin(const config *c)
{
    count = (uint32_t)c->permits;
    slots = calloc(count, sizeof *slots);
    links = calloc(count, sizeof *links);
    if (slots == NULL || links == NULL) {
        return ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        slots[i].place = i;
    }
    return csem_pool_init(&places, links, count);
}

void slots_end(void)
{
    free(slots);
    free(links);
}

slot *slots_at(uint32_t place)
{
    return &slots[place];
}

int slots_in_use(void)
{
    return atomic_load(&in_use);
}

static void set_state(slot *s, enum slot_state state)
{
    pthread_mutex_lock(&lock);
    s->state = state;
    pthread_mutex_unlock(&lock);
}

int slots_take(uint32_t taken[], int most)
{
    int n = 0;
    if (csem_pool_take(&places, &taken[0]) != 0) {
        return 0;
    }
    do {
        set_state(&slots[taken[n++]], SLOT_TAKEN);
    } while (n < most && csem_pool_try_take(&places, &taken[n]) == 0);
    atomic_fetch_add(&in_use, n);
    return n;
}

static void give_back(slot *s)
{
    set_state(s, SLOT_FREE);
    atomic_fetch_sub(&in_use, 1);
    csem_pool_put(&places, s->place);
}

void slots_give_back(const uint32_t taken[], int n)
{
    while (n > 0) {
        give_back(&slots[taken[--n]]);
    }
}

void slots_activate(slot *s, const char *worker, const char *const fields[5], int64_t lease_ends)
{
    pthread_mutex_lock(&lock);
    snprintf(s->worker, sizeof s->worker, "%s", worker);
    snprintf(s->id, sizeof s->id, "%s", fields[0]);
    snprintf(s->attempt, sizeof s->attempt, "%s", fields[1]);
    snprintf(s->kind, sizeof s->kind, "%s", fields[2]);
    snprintf(s->payload, sizeof s->payload, "%s", fields[3]);
    s->in_pool = fields[4] != NULL;
    s->error[0] = '\0';
    atomic_store(&s->must_end, INT64_MAX);
    atomic_store(&s->lease_ends, lease_ends);
    s->state = SLOT_ACTIVE;
    pthread_mutex_unlock(&lock);
}

void slots_over(slot *s, enum slot_end end)
{
    if (end == SLOT_SETTLED) {
        give_back(s);
        return;
    }
    pthread_mutex_lock(&lock);
    s->end = end;
    s->state = SLOT_ENDED;
    pthread_mutex_unlock(&lock);
    csem_release(&slots_bell);
}

void slots_told(slot *s)
{
    give_back(s);
}

void slots_close(void)
{
    csem_pool_close(&places);
}

bool slots_wanted(const void *whatever)
{
    const slot *s = whatever;
    int64_t now = clock_ns();
    return !atomic_load_explicit(&broken_off, memory_order_relaxed) &&
           now < atomic_load_explicit(&s->lease_ends, memory_order_relaxed) &&
           now < atomic_load_explicit(&s->must_end, memory_order_relaxed);
}

void slots_break_off(void)
{
    atomic_store(&broken_off, true);
}

bool slots_broken_off(void)
{
    return atomic_load(&broken_off);
}

void slots_each(enum slot_state state, void (*f)(slot *s, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i].state == state) {
            f(&slots[i], arg);
        }
    }
    pthread_mutex_unlock(&lock);
}

void slots_renewed(const char *id, const char *attempt, int64_t lease_ends)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        slot *s = &slots[i];
        if (s->state == SLOT_ACTIVE && strcmp(s->id, id) == 0 && strcmp(s->attempt, attempt) == 0) {
            atomic_store(&s->lease_ends, lease_ends);
        }
    }
    pthread_mutex_unlock(&lock);
}
