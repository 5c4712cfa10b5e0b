/* semaphore.h - v0.1.0 - counting semaphore, lock-free while a permit is free - C11 and C++11
 * SPDX-License-Identifier: MIT
 * Part of Plimsoll, a toolkit of concurrency limiters. This file alone is enough: copy it.
 *
 *     #include "semaphore.h"
 *
 *     static csem connections = CSEM_INIT(8);          // at most 8 at once, 8 bytes
 *
 *     int fetch(const char *url)
 *     {
 *         int error = csem_acquire_for(&connections, PLIM_MS(250));
 *         if (error != 0) {
 *             return error;                            // ETIMEDOUT: all 8 were busy for 250 ms
 *         }
 *         error = download(url);
 *         csem_release(&connections);
 *         return error;
 *     }
 *
 * OVERVIEW
 *   A csem counts free permits. Acquiring takes one, and waits while there is none; releasing
 *   gives one. It does not know who holds how many, nor how many there were at first: any thread
 *   may release, also more than was acquired.
 *
 *     csem_init, CSEM_INIT                        start with some permits
 *     csem_acquire, csem_acquire_for              take one, wait for it (at most so long)
 *     csem_try_acquire, csem_try_acquire_n        take one, or n, now or not at all
 *     CSEM_SCOPE(&s) { ... }                      hold one for the length of a block
 *     csem_release, csem_release_n                give one, or n, and wake who can go on
 *     csem_reduce, csem_drain                     take permits out of circulation
 *     csem_close                                  send everybody away, now and from now on
 *     csem_available, csem_waiters                look
 *
 *   There is nothing to destroy. Do not copy a csem; a zeroed one is valid and has no permits.
 *   There is no blocking acquire of n: taking them one by one can deadlock.
 *
 *   To change a limit at run time: csem_release_n(&s, more), or csem_reduce(&s, fewer), which
 *   never waits: the new limit holds as soon as csem_available() is not negative.
 *
 *   A csem without permits is a sleep that other threads can end: csem_acquire_for sleeps,
 *   csem_release wakes one thread, csem_close wakes all of them (docs/recipes.md has an example).
 *
 *   To end a queue whose items are counted by a csem:
 *
 *         csem_close(&items);                          // the producers are done
 *         ...
 *         if (csem_acquire(&items) == ESHUTDOWN) {     // a consumer
 *             for (uint32_t left = csem_drain(&items); left > 0; left--) {
 *                 consume(pop());                      // what nobody had acquired
 *             }
 *         }
 *
 * ERRORS
 *   0 or an errno value is returned; errno itself is left alone, and a call that fails changes
 *   nothing. <errno.h> comes with this header.
 *     EAGAIN     no permit (try_acquire), or too many threads wait
 *     ETIMEDOUT  no permit in time
 *     ESHUTDOWN  closed
 *     EINVAL     the argument is above CSEM_MAX
 *     EOVERFLOW  there would be more than CSEM_MAX free permits, or more than CSEM_MAX debt
 *
 * WHAT IT GUARANTEES
 *   Cost         Acquiring a free permit is one atomic read-modify-write, releasing is one: no
 *                system call, no clock, no allocation. A release makes a system call only if a
 *                sleeping thread must be woken, and has not been already.
 *   Progress     csem_try_acquire, csem_release, csem_reduce, csem_drain and csem_close, and their
 *                _n forms, are lock-free and never block.
 *   Order        What a thread did before it released a permit is seen by the thread that acquires
 *                or drains it. Failed calls, csem_reduce and csem_close order nothing: a thread
 *                that gets ESHUTDOWN need not see what was written before the close.
 *   Fairness     A free permit goes to whoever comes first, also to a passer-by ahead of a
 *                sleeper. But with k threads waiting, one that is woken after k times half a
 *                millisecond or more, and finds the permit gone, is owed the next: others get only
 *                what is left over. The longest asleep is woken first (as Linux does it), so
 *                nobody starves, however greedy the others. (Not between processes, see there.)
 *   Definite     No call fails spuriously. A try fails only if no permit is free; one that is owed
 *                to a waiter does not count as free. A timed wait takes a permit that is there at
 *                its end. A wait ends early only by csem_close.
 *   Lifetime     If your acquire is the last use of a csem, you may free it when it returns, even
 *                if the matching release has not returned yet in its thread. After a close, join
 *                the threads that wait first.
 *   Signals      csem_release, csem_release_n, csem_try_acquire and csem_close may be called in a
 *                signal handler. No call returns EINTR: after a handler has run, a wait goes on,
 *                with the time that is left. So a signal does not end a wait; csem_close does.
 *   Cancellation No call is a point of thread cancellation: a thread that is cancelled while it
 *                waits ends after it has got its permit, and keeps that. Do not use asynchronous
 *                cancellation: a thread that vanishes in a wait may take a permit with it.
 *
 * LIMITS
 *   Permits      from -CSEM_MAX (debt after a reduce) to CSEM_MAX, 2^30 - 1, free at a time. That
 *                is half of what sem_t of glibc can count: SEM_VALUE_MAX permits are EINVAL here.
 *                If you mean "as many as there can be", say CSEM_MAX.
 *   Waiters      524287 threads at once; one more gets EAGAIN.
 *   Spinning     Before it sleeps, a thread looks for a permit PLIM_SPIN times, some microseconds.
 *                A csem remembers how that ended: where it fails, as on a single CPU, threads stop
 *                looking, and only now and then one tries, for 100 us (one in 2048 at least). Not
 *                if others wait already, nor with a timeout of 0 or less.
 *   Latency      Where permits change hands faster than a thread can fall asleep, a waiter that
 *                finds none again may look away for 50 us (and the system's timer slack) before
 *                it sees a permit, or a close.
 *   System calls On Linux a wait and a wake-up call futex (FUTEX_WAIT_BITSET, FUTEX_WAKE), and
 *                nothing else: a seccomp filter need allow no more. A wait reads the clock, which
 *                needs no system call where the C library has it from the kernel's page. 32-bit
 *                systems call futex_time64 and clock_gettime64, and without those the older two.
 *   fork()       The child has one thread and copies. A copy on which no thread waited can be used:
 *                permits that the parent's threads held are taken there as well, and nobody gives
 *                them back. A copy on which threads waited must be initialised anew.
 *   Processes    Not shared between processes, unless PLIM_PROCESS_SHARED is defined (Linux).
 *                Define it in every file that uses such a csem, of every program that does. Then:
 *                - A process that is killed or stopped while it waits takes nothing with it. The
 *                  permits that are free stay free for others. Each later release may make a
 *                  system call for nothing, and csem_waiters goes on counting the dead.
 *                - If the one just woken, or a thread inside csem_release, is killed or stopped,
 *                  another that waits may see the permit a second late.
 *                - A process that dies while it holds a permit keeps it. Nobody knows that it held
 *                  one: give it back in its place, with csem_release, if you know.
 *                - Nobody is ever owed a permit: newcomers may pass those who wait, who are woken
 *                  in the kernel's order. So a waiter can starve while others are greedy.
 *                - Waits that last wake up once a second. No number of waiters is refused.
 *   Languages    C11 or later, C++11 or later; a C file and a C++ file may share a csem. In an
 *                older language this file declares nothing ("unknown type name csem"). On Windows
 *                link with -lsynchronization, and use gcc or clang. Microsoft's compiler is not
 *                supported: nobody has tried it. Its C needs /std:c11 and /experimental:c11atomics.
 *                Its C++ needs /Zc:__cplusplus; without that this file declares nothing.
 *   Releases     Do not share a csem between parts of a program built with different releases.
 *   Name         If this directory is on the include path, <semaphore.h> finds this file; it then
 *                includes the system's as well.
 *
 * MACROS TO DEFINE BEFORE THE INCLUDE, if at all
 *   May differ between files:
 *     PLIM_SPIN n            looks at the word before sleeping, at most (100; 0 never spins)
 *     PLIM_ASSERT(c, text)   called with c false when a csem is found to have been overwritten or
 *                            initialised while threads wait on it (assert)
 *   Must be the same in all files that share a csem; nothing checks it:
 *     PLIM_PROCESS_SHARED    Linux: waits work between processes, and survive their deaths
 *     PLIM_PARK_CND          wait on C11 mutexes and conditions instead of the system's wait on an
 *                            address. A csem is larger then, no call is lock-free or safe in
 *                            signal handlers, waits are points of thread cancellation, and setting
 *                            the wall clock back delays the end of a timed wait. Systems other
 *                            than Linux, Windows and macOS get this in any case.
 */
