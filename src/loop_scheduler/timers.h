/* Timers: a wheel of wheels. */

/*
 * A wheel of wheels: 9 levels of 64 slots each. Time is cut into grains of 4 microseconds. A slot
 * of level 0 is a grain, one of level 1 is 64 grains, and so on: level 8 reaches to the end of
 * time. base_ is the time up to which the wheel has turned. A timer is in the level of the highest
 * digit (base 64) in which its grain differs from base_'s, in the slot of its own digit there. When
 * base_ gets to a slot, its timers go down, to where they differ now; at level 0 those that are due
 * go to due_, in order. So start and cancel take constant time, a timer moves at most 8 times
 * before it fires, and fires neither early nor late: the wheel only sorts, the deadline decides.
 *
 * At each level, slots before base_'s digit are empty; that digit's own slot too, except at level
 * 0, where it has the timers of the current grain and those that were due when they were started.
 * So the earliest timers are in the first occupied slot of the lowest occupied level.
 *
 * next_timer_ is not later than the earliest deadline (and equal to it unless a slot of a high
 * level has very many timers: then it is when the slot begins). It may be too early after a cancel.
 */
enum { LOOP_SCHEDULER_GRAIN_ = 12, LOOP_SCHEDULER_DIGIT_ = 6, LOOP_SCHEDULER_LOOKS_ = 64 };

/* The slot_ of a timer that is due: none of the wheel. */
enum { LOOP_SCHEDULER_DUE_ = LOOP_SCHEDULER_LEVELS_ * LOOP_SCHEDULER_SLOTS_ };

static inline int loop_scheduler_highest_bit_(uint64_t x)
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

static inline int loop_scheduler_lowest_bit_(uint64_t x)
{
    return loop_scheduler_highest_bit_(x & (~x + 1));
}

static inline void loop_scheduler_link_(loop_scheduler_timer **head, loop_scheduler_timer *timer)
{
    timer->next_ = *head;
    timer->link_ = head;
    if (*head != NULL) {
        (*head)->link_ = &timer->next_;
    }
    *head = timer;
}

/* Into the wheel. */
static inline void loop_scheduler_insert_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    uint64_t base = (uint64_t)l->base_ >> LOOP_SCHEDULER_GRAIN_;
    uint64_t grain = (uint64_t)timer->deadline_ >> LOOP_SCHEDULER_GRAIN_;
    grain = timer->deadline_ > l->base_ ? grain : base;
    uint64_t difference = grain ^ base;
    int level =
        difference == 0 ? 0 : loop_scheduler_highest_bit_(difference) / LOOP_SCHEDULER_DIGIT_;
    uint32_t slot = grain >> (level * LOOP_SCHEDULER_DIGIT_) & (LOOP_SCHEDULER_SLOTS_ - 1);
    l->occupied_[level] |= (uint64_t)1 << slot;
    timer->slot_ = (uint32_t)level * LOOP_SCHEDULER_SLOTS_ + slot;
    loop_scheduler_link_(&l->slots_[timer->slot_], timer);
}

/* Out of wherever it is. */
static inline void loop_scheduler_remove_(loop_scheduler *l, loop_scheduler_timer *timer)
{
    uint32_t slot = timer->slot_;
    *timer->link_ = timer->next_;
    if (timer->next_ != NULL) {
        timer->next_->link_ = timer->link_;
    }
    if (slot != LOOP_SCHEDULER_DUE_ && l->slots_[slot] == NULL) {
        l->occupied_[slot / LOOP_SCHEDULER_SLOTS_] &=
            ~((uint64_t)1 << slot % LOOP_SCHEDULER_SLOTS_);
    }
}

static inline bool loop_scheduler_before_(const loop_scheduler_timer *a,
                                          const loop_scheduler_timer *b)
{
    return a->deadline_ != b->deadline_ ? a->deadline_ < b->deadline_ : a->sequence_ < b->sequence_;
}

/* Sorts a list by next_, merging runs of 1, 2, 4, ... timers. */
PLIM_CALLED_ loop_scheduler_timer *loop_scheduler_sorted_(loop_scheduler_timer *list)
{
    for (size_t length = 1;; length *= 2) {
        loop_scheduler_timer *rest = list, **end = &list;
        size_t merges = 0;
        while (rest != NULL) {
            loop_scheduler_timer *a = rest, *b = rest;
            size_t left_a = 0, left_b = length;
            while (left_a < length && b != NULL) {
                b = b->next_;
                left_a++;
            }
            while (left_a > 0 || (left_b > 0 && b != NULL)) {
                bool takes_b =
                    left_a == 0 || (left_b > 0 && b != NULL && loop_scheduler_before_(b, a));
                loop_scheduler_timer **from = takes_b ? &b : &a;
                --*(takes_b ? &left_b : &left_a);
                *end = *from;
                end = &(*from)->next_;
                *from = (*from)->next_;
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
static inline int loop_scheduler_first_slot_(const loop_scheduler *l, int64_t *begins)
{
    for (int level = 0; level < LOOP_SCHEDULER_LEVELS_; level++) {
        if (l->occupied_[level] != 0) {
            int slot = loop_scheduler_lowest_bit_(l->occupied_[level]);
            int shift = LOOP_SCHEDULER_GRAIN_ + level * LOOP_SCHEDULER_DIGIT_;
            uint64_t above = (uint64_t)l->base_ >> shift >> LOOP_SCHEDULER_DIGIT_;
            *begins = (int64_t)((above << LOOP_SCHEDULER_DIGIT_ | (uint64_t)slot) << shift);
            return level * LOOP_SCHEDULER_SLOTS_ + slot;
        }
    }
    return -1;
}

/* Renews next_timer_. */
static inline void loop_scheduler_look_ahead_(loop_scheduler *l)
{
    int64_t earliest = l->due_ != NULL ? l->due_->deadline_ : PLIM_FOREVER, begins;
    int slot = loop_scheduler_first_slot_(l, &begins);
    if (l->due_ == NULL && slot >= 0) {
        int looks = 0;
        for (loop_scheduler_timer *at = l->slots_[slot]; at != NULL; at = at->next_) {
            earliest = at->deadline_ < earliest ? at->deadline_ : earliest;
            if (++looks == LOOP_SCHEDULER_LOOKS_ && slot >= LOOP_SCHEDULER_SLOTS_) {
                earliest = begins;
                break;
            }
        }
    }
    plim_store_relaxed_(&l->next_timer_, (uint64_t)earliest);
}

/*
 * Turns the wheel until some timers are due, and puts them into due_; false if there are none. Not
 * those with a sequence of `bound` or more: they were started after this round began.
 */
PLIM_CALLED_ bool loop_scheduler_turn_wheel_(loop_scheduler *l, int64_t now, uint64_t bound)
{
    int64_t begins = 0;
    for (;;) {
        int slot = loop_scheduler_first_slot_(l, &begins);
        if (slot < 0 || (begins > now && begins > l->base_)) {
            break;
        }
        loop_scheduler_timer *list = l->slots_[slot], *due = NULL;
        l->slots_[slot] = NULL;
        l->occupied_[slot / LOOP_SCHEDULER_SLOTS_] &=
            ~((uint64_t)1 << slot % LOOP_SCHEDULER_SLOTS_);
        l->base_ = begins > l->base_ ? begins : l->base_;
        while (list != NULL) {
            loop_scheduler_timer *timer = list;
            list = timer->next_;
            if (timer->deadline_ <= now && timer->sequence_ < bound &&
                slot < LOOP_SCHEDULER_SLOTS_) {
                timer->next_ = due;
                due = timer;
            } else {
                loop_scheduler_insert_(l, timer);
            }
        }
        if (due != NULL) {
            loop_scheduler_timer **link = &l->due_;
            l->due_ = loop_scheduler_sorted_(due);
            for (loop_scheduler_timer *at = l->due_; at != NULL; at = at->next_) {
                at->slot_ = LOOP_SCHEDULER_DUE_;
                at->link_ = link;
                link = &at->next_;
            }
            return true;
        }
        if (slot < LOOP_SCHEDULER_SLOTS_) {
            return false; /* the grain of now, or what was started since the round began */
        }
    }
    l->base_ = now > l->base_ ? now : l->base_;
    return false;
}
