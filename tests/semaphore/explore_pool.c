/* Scenarios for pools. Included by explore.c. */

#define TURNS (&world.pool.turns_.counter_.word)

static void pool_of(uint32_t count)
{
    explore_check(csem_pool_init(&world.pool, world.links, count) == 0);
}

static void pool_of_1(void)
{
    pool_of(1);
}

static void pool_of_2(void)
{
    pool_of(2);
}

static void pool_of_1_taken(void)
{
    uint32_t index;
    pool_of(1);
    explore_check(csem_pool_take(&world.pool, &index) == 0);
    world.owned[index] = 1;
}

static void own(uint32_t index)
{
    explore_check(index < 2 && world.owned[index] == 0);
    world.owned[index] = 1;
}

static void give_index(uint32_t index)
{
    world.owned[index] = 0;
    explore_check(csem_pool_put(&world.pool, index) == 0);
}

static void borrow_index(void)
{
    uint32_t index = 9;
    explore_check(csem_pool_take(&world.pool, &index) == 0);
    own(index);
    give_index(index);
}

static void borrow_twice(void)
{
    borrow_index();
    borrow_index();
}

static void borrow_in_time(void)
{
    uint32_t index = 9;
    int error = csem_pool_take_for(&world.pool, &index, PLIM_US(100));
    explore_check(error == 0 || error == ETIMEDOUT);
    if (error == 0) {
        own(index);
        give_index(index);
    }
}

static void borrow_unless_closed(void)
{
    uint32_t index = 9;
    int error = csem_pool_take(&world.pool, &index);
    explore_check(error == 0 || error == ESHUTDOWN);
    if (error == 0) {
        own(index);
        give_index(index);
    }
}

static void borrow_in_time_or_closed(void)
{
    uint32_t index = 9;
    int error = csem_pool_take_for(&world.pool, &index, PLIM_US(100));
    explore_check(error == 0 || error == ETIMEDOUT || error == ESHUTDOWN);
    if (error == 0) {
        own(index);
        give_index(index);
    }
}

static void borrow_both(void)
{
    uint32_t index[2];
    explore_check(csem_pool_take(&world.pool, &index[0]) == 0);
    own(index[0]);
    if (csem_pool_try_take(&world.pool, &index[1]) == 0) {
        own(index[1]);
        give_index(index[0]); /* not in the order of a stack */
        give_index(index[1]);
    } else {
        give_index(index[0]);
    }
}

static void give_the_index(void)
{
    give_index(0);
}

static void close_pool(void)
{
    csem_pool_close(&world.pool);
}

/* Everything is back, and nobody is counted who does not wait. */
static void pool_is_whole(void)
{
    uint64_t word = world.pool.free_;
    uint32_t free = 0;
    for (uint64_t at = word & CSEM_POOL_FIELD_; at != 0 && free <= 2; free++) {
        explore_check(at <= world.pool.count_);
        at = world.links[at - 1].below_;
    }
    explore_check(free == world.pool.count_);
    explore_check((world.pool.handed_ & CSEM_POOL_FIELD_) == 0);
    explore_check(csem_available(&world.pool.turns_) == 0);
}

#define POOL_SCENARIO(id, text, first, ...) \
    static const explore_scenario id = {.name = text, \
                                        .world = &world, \
                                        .world_size = sizeof world, \
                                        .words = {TURNS}, \
                                        .setup = first, \
                                        .check = pool_is_whole, \
                                        __VA_ARGS__}

POOL_SCENARIO(pool_two_on_one, "pool: two want one index", pool_of_1,
              BODIES(borrow_index, borrow_index));
POOL_SCENARIO(pool_three_on_one, "pool: three want one index", pool_of_1,
              BODIES(borrow_index, borrow_index, borrow_index), .preemptions = 3);
POOL_SCENARIO(pool_held_up, "pool: a take is held up while others take and put", pool_of_2,
              BODIES(borrow_index, borrow_both), .preemptions = 3);
POOL_SCENARIO(pool_three_on_two, "pool: three want two indices", pool_of_2,
              BODIES(borrow_both, borrow_index, borrow_twice), .preemptions = 3);
POOL_SCENARIO(pool_timeout, "pool: an index races a timeout", pool_of_1_taken,
              BODIES(borrow_in_time, give_the_index));
POOL_SCENARIO(pool_timeout_of_one, "pool: one of two gives up", pool_of_1_taken,
              BODIES(borrow_in_time, borrow_index, give_the_index), .preemptions = 3);
POOL_SCENARIO(pool_close, "pool: close races an index", pool_of_1_taken,
              BODIES(borrow_unless_closed, borrow_unless_closed, give_the_index, close_pool),
              .preemptions = 2);
POOL_SCENARIO(pool_close_and_timeout, "pool: close races a timeout", pool_of_1_taken,
              BODIES(borrow_in_time_or_closed, give_the_index, close_pool), .preemptions = 3);
