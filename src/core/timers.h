#ifndef PLIM_TIMERS_H_
#define PLIM_TIMERS_H_

/*
 * Timers: many deadlines, and which of them are next.
 *
 * The structure is a wheel of wheels: 9 levels of 64 slots each. It cuts time into grains of 4
 * microseconds. A slot of level 0 is one grain. A slot of level 1 is 64 grains, and so on. Level 8
 * reaches to the end of time. `base` is the time up to which the wheel has turned.
 *
 * A timer stands in the level of the highest digit (base 64) in which its grain differs from that
 * of `base`. Its slot there is its own digit. A timer whose time is not after `base` stands in the
 * slot of base's own grain.
 *
 * The invariant: at each level the slots before base's digit are empty. Above level 0 the slot of
 * base's digit is empty, too. So the earliest timers are in the first occupied slot of the lowest
 * occupied level.
 *
 * When the wheel has turned to a slot, the timers of that slot move down. Each goes to where it
 * differs from `base` now. At level 0 those that are due go to the list `due`, in the order of
 * their times. Timers of the same time keep the order in which they were armed. This order holds
 * among timers that were armed before the first of them is taken.
 *
 * The wheel only sorts. The time of a timer decides when it is due, so nobody takes it early.
 *
 * Arming and disarming take constant time. A timer moves at most 8 times before it is due. All
 * links are in the timers, so arming cannot fail. Their owner has a lock for them.
 */
typedef struct plim_timer_ {
    struct plim_timer_ *next, **link; /* the one behind it in its slot, and what points to it there;
                                         link is NULL if it is not armed */
    int64_t at;                       /* when it is due */
    uint64_t sequence;                /* of its arming, among all of the wheel */
} plim_timer_;

enum {
    PLIM_WHEEL_LEVELS_ = 9,
    PLIM_WHEEL_SLOTS_ = 64, /* of a level */
    PLIM_WHEEL_ALL_ = PLIM_WHEEL_LEVELS_ * PLIM_WHEEL_SLOTS_,
    PLIM_WHEEL_GRAIN_ = 12, /* bits of a time within a grain */
    PLIM_WHEEL_DIGIT_ = 6,  /* bits of a digit */
    PLIM_WHEEL_LOOKS_ = 64  /* see plim_timers_next_ */
};

typedef struct plim_timers_ {
    int64_t base;
    uint64_t sequence; /* of the next one that is armed */
    uint32_t count;    /* that are armed */
    plim_timer_ *due;
    uint64_t occupied[PLIM_WHEEL_LEVELS_]; /* bit n: slot n of that level has timers */
    plim_timer_ *slots[PLIM_WHEEL_ALL_];   /* those of level 0, then those of level 1, ... */
} plim_timers_;

static inline int plim_highest_bit_(uint64_t x)
{
#if defined(__GNUC__) || defined(__clang__)
    return 63 - __builtin_clzll(x);
#else
    int bit = 0;
    while (x >>= 1) {
        bit++;
    }
    return bit;
#endif
}

static inline int plim_lowest_bit_(uint64_t x)
{
    return plim_highest_bit_(x & (~x + 1));
}

/* Requires: *timers is all zero. */
static inline void plim_timers_init_(plim_timers_ *timers, int64_t now)
{
    timers->base = now;
}

static inline bool plim_timer_is_armed_(const plim_timer_ *timer)
{
    return timer->link != NULL;
}

/* Puts it into the slot where it belongs now. */
PLIM_CALLED_ void plim_timers_insert_(plim_timers_ *timers, plim_timer_ *timer)
{
    uint64_t base = (uint64_t)timers->base >> PLIM_WHEEL_GRAIN_;
    uint64_t grain = (uint64_t)timer->at >> PLIM_WHEEL_GRAIN_;
    grain = timer->at > timers->base ? grain : base;
    uint64_t difference = grain ^ base;
    int level = difference == 0 ? 0 : plim_highest_bit_(difference) / PLIM_WHEEL_DIGIT_;
    uint32_t slot = grain >> (level * PLIM_WHEEL_DIGIT_) & (PLIM_WHEEL_SLOTS_ - 1);
    plim_timer_ **head = &timers->slots[(uint32_t)level * PLIM_WHEEL_SLOTS_ + slot];
    timers->occupied[level] |= (uint64_t)1 << slot;
    timer->next = *head;
    timer->link = head;
    if (*head != NULL) {
        (*head)->link = &timer->next;
    }
    *head = timer;
}

/* Requires: it is not armed. */
static inline void plim_timers_arm_(plim_timers_ *timers, plim_timer_ *timer, int64_t at)
{
    timer->at = at;
    timer->sequence = timers->sequence++;
    timers->count++;
    plim_timers_insert_(timers, timer);
}

static inline void plim_timers_vacate_(plim_timers_ *timers, uint32_t slot)
{
    timers->occupied[slot / PLIM_WHEEL_SLOTS_] &= ~((uint64_t)1 << slot % PLIM_WHEEL_SLOTS_);
}

/* Requires: it is armed. */
static inline void plim_timers_disarm_(plim_timers_ *timers, plim_timer_ *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL) {
        timer->next->link = timer->link;
    } else { /* if what pointed to it is a slot, and not another timer or `due`, it is empty now */
        uintptr_t slot = ((uintptr_t)timer->link - (uintptr_t)timers->slots) / sizeof *timer->link;
        if (slot < PLIM_WHEEL_ALL_) {
            plim_timers_vacate_(timers, (uint32_t)slot);
        }
    }
    timer->link = NULL;
    timers->count--;
}

/* Sorts a list by next, merging runs of 1, 2, 4, ... timers. */
PLIM_CALLED_ plim_timer_ *plim_timers_sorted_(plim_timer_ *list)
{
    for (size_t length = 1;; length *= 2) {
        plim_timer_ *rest = list, **end = &list;
        size_t merges = 0;
        while (rest != NULL) {
            plim_timer_ *a = rest, *b = rest;
            size_t left_a = 0, left_b = length;
            while (left_a < length && b != NULL) {
                b = b->next;
                left_a++;
            }
            while (left_a > 0 || (left_b > 0 && b != NULL)) {
                bool takes_b = left_a == 0 ||
                               (left_b > 0 && b != NULL &&
                                (b->at < a->at || (b->at == a->at && b->sequence < a->sequence)));
                plim_timer_ **from = takes_b ? &b : &a;
                --*(takes_b ? &left_b : &left_a);
                *end = *from;
                end = &(*from)->next;
                *from = (*from)->next;
            }
            rest = b;
            merges++;
        }
        *end = NULL;
        if (merges <= 1) {
            return list;
        }
    }
}

/* The first occupied slot, and when it begins; -1 if there is none. */
static inline int plim_timers_first_slot_(const plim_timers_ *timers, int64_t *begins)
{
    for (int level = 0; level < PLIM_WHEEL_LEVELS_; level++) {
        if (timers->occupied[level] != 0) {
            int slot = plim_lowest_bit_(timers->occupied[level]);
            int shift = PLIM_WHEEL_GRAIN_ + level * PLIM_WHEEL_DIGIT_;
            uint64_t above = (uint64_t)timers->base >> shift >> PLIM_WHEEL_DIGIT_;
            *begins = (int64_t)((above << PLIM_WHEEL_DIGIT_ | (uint64_t)slot) << shift);
            return level * PLIM_WHEEL_SLOTS_ + slot;
        }
    }
    return -1;
}

/* When the next timer is due; PLIM_FOREVER: there is none. The answer is too early if a slot of a
 * high level has very many timers: then it is when that slot begins. While some timers are due, it
 * is any time that has passed. */
PLIM_SLOW_ int64_t plim_timers_next_(const plim_timers_ *timers)
{
    int64_t earliest = timers->due != NULL ? timers->due->at : PLIM_FOREVER, begins;
    int slot = plim_timers_first_slot_(timers, &begins);
    if (timers->due == NULL && slot >= 0) {
        int looks = 0;
        for (plim_timer_ *at = timers->slots[slot]; at != NULL; at = at->next) {
            earliest = at->at < earliest ? at->at : earliest;
            if (++looks == PLIM_WHEEL_LOOKS_ && slot >= PLIM_WHEEL_SLOTS_) {
                return begins;
            }
        }
    }
    return earliest;
}

/* Turns the wheel until some timers are due, and puts them into `due`; false if there are none. */
PLIM_CALLED_ bool plim_timers_turn_(plim_timers_ *timers, int64_t now, uint64_t bound)
{
    int64_t begins = 0;
    for (;;) {
        int slot = plim_timers_first_slot_(timers, &begins);
        if (slot < 0 || (begins > now && begins > timers->base)) {
            break;
        }
        plim_timer_ *list = timers->slots[slot], *due = NULL;
        timers->slots[slot] = NULL;
        plim_timers_vacate_(timers, (uint32_t)slot);
        timers->base = begins > timers->base ? begins : timers->base;
        while (list != NULL) {
            plim_timer_ *timer = list;
            list = timer->next;
            if (timer->at <= now && timer->sequence < bound && slot < PLIM_WHEEL_SLOTS_) {
                timer->next = due;
                due = timer;
            } else {
                plim_timers_insert_(timers, timer);
            }
        }
        if (due != NULL) {
            plim_timer_ **link = &timers->due;
            timers->due = due->next != NULL ? plim_timers_sorted_(due) : due;
            for (plim_timer_ *at = timers->due; at != NULL; at = at->next) {
                at->link = link;
                link = &at->next;
            }
            return true;
        }
        if (slot < PLIM_WHEEL_SLOTS_) {
            return false; /* the grain of now, or what was armed too late for this round */
        }
    }
    timers->base = now > timers->base ? now : timers->base;
    return false;
}

/* Disarms the first timer that is due, and returns it; NULL: none is. Timers whose sequence is
 * `bound` or more have to wait, unless they became due in an earlier call. */
static inline plim_timer_ *plim_timers_take_due_(plim_timers_ *timers, int64_t now, uint64_t bound)
{
    if (timers->due == NULL && !plim_timers_turn_(timers, now, bound)) {
        return NULL;
    }
    plim_timer_ *first = timers->due;
    plim_timers_disarm_(timers, first);
    return first;
}

#endif /* PLIM_TIMERS_H_ */
