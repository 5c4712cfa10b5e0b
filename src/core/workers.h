#ifndef PLIM_WORKERS_
#define PLIM_WORKERS_

/*
 * Threads that serve an object. Unlike the program's own, they block its signals, carry a name, and
 * their end is noticed even if a job ends them. All memory, here and for them, comes from
 * PLIM_MALLOC.
 *
 *   plim_worker_create_(&thread, stack_size, run, arg)
 *                                            a thread with signals blocked, unless the program
 *                                            defines PLIM_WORKER_SIGNALS. Its stack has at least
 *                                            that many bytes; 0 is the system's default. run is
 *                                            declared as static plim_worker_result name(void *arg)
 *                                            and returns 0. Answers 0, EAGAIN, ENOMEM
 *   plim_worker_join_(thread)                waits for its end
 *   plim_worker_begins_(name)                names the calling thread (on Linux), for ps and
 *                                            debuggers, and disables its cancellation
 *   PLIM_ON_THREAD_EXIT_(handler, arg)       from here to PLIM_ON_THREAD_EXIT_END_, in one block:
 *   PLIM_ON_THREAD_EXIT_END_                 if the thread ends (thrd_exit, pthread_exit),
 *                                            handler(arg) is called. Not outside of POSIX systems.
 *   plim_process_()                          tells a child that was forked from its parent
 *
 * They are POSIX threads where there are any, because C11 has no word for the size of a stack.
 */
#if defined(PLIM_MALLOC) != defined(PLIM_FREE)
#error "define both PLIM_MALLOC and PLIM_FREE, or neither"
#elif !defined(PLIM_MALLOC)
#include <stdlib.h>
#define PLIM_MALLOC(size) malloc(size)
#define PLIM_FREE(memory) free(memory)
#endif

/* Leaves errno alone. */
static inline void *plim_memory_(size_t size)
{
    int saved = errno;
    void *memory = PLIM_MALLOC(size);
    errno = saved;
    return memory;
}

#if (defined(__unix__) || defined(__APPLE__)) && !defined(PLIM_PLATFORM)
#include <pthread.h>
#include <unistd.h>

typedef pthread_t plim_worker_thread;
typedef void *plim_worker_result;

/* A system may refuse sizes below its minimum, or that are not whole pages. */
static inline int plim_worker_spawn_(plim_worker_thread *t, size_t stack_size,
                                     plim_worker_result (*run)(void *), void *arg)
{
    const size_t unit = (size_t)1 << 16, most = SIZE_MAX / 2;
    pthread_attr_t attributes;
    int error = 0;
    if (stack_size == 0) {
        error = pthread_create(t, NULL, run, arg);
    } else if ((error = pthread_attr_init(&attributes)) == 0) {
        size_t size = stack_size < most ? (stack_size + unit - 1) / unit * unit : most;
        while ((error = pthread_attr_setstacksize(&attributes, size)) != 0 && size < most / 2) {
            size *= 2;
        }
        error = error != 0 ? error : pthread_create(t, &attributes, run, arg);
        pthread_attr_destroy(&attributes);
    }
    return error != 0 && error != ENOMEM ? EAGAIN : error;
}

static inline void plim_worker_join_(plim_worker_thread t)
{
    pthread_join(t, NULL);
}

static inline uint64_t plim_process_(void)
{
    return (uint64_t)getpid();
}

#ifdef __cplusplus
/* By a destructor of our own: that of the C library's header is a symbol in the object file. */
#define PLIM_ON_THREAD_EXIT_(function, argument) \
    { \
        struct plim_guard_type_ { \
            void (*handler)(void *); \
            void *arg; \
            ~plim_guard_type_() \
            { \
                if (handler != NULL) { \
                    handler(arg); \
                } \
            } \
        } plim_guard_ = {function, argument};
#define PLIM_ON_THREAD_EXIT_END_ \
    plim_guard_.handler = NULL; \
    }
#else
#define PLIM_ON_THREAD_EXIT_(handler, arg) pthread_cleanup_push(handler, arg);
#define PLIM_ON_THREAD_EXIT_END_ pthread_cleanup_pop(0);
#endif

static inline void plim_worker_uncancel_(void)
{
#ifdef PTHREAD_CANCEL_DISABLE
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
#endif
}

#else /* the thread's end goes unnoticed */
typedef plim_thread plim_worker_thread;
typedef plim_thread_result plim_worker_result;

#ifndef PLIM_PLATFORM
static inline int plim_worker_spawn_(plim_worker_thread *t, size_t stack_size,
                                     plim_worker_result (*run)(void *), void *arg)
{
    (void)stack_size;
    return plim_thread_create_(t, run, arg);
}
#endif

static inline void plim_worker_join_(plim_worker_thread t)
{
    plim_thread_join_(t);
}

static inline uint64_t plim_process_(void)
{
    return 1; /* nothing forks there */
}

#define PLIM_ON_THREAD_EXIT_(handler, arg) \
    { \
        (void)(handler), (void)(arg);
#define PLIM_ON_THREAD_EXIT_END_ }

static inline void plim_worker_uncancel_(void)
{
}
#endif

#ifndef PLIM_PLATFORM

#if defined(PLIM_WORKER_SIGNALS) || !(defined(__linux__) || defined(__APPLE__))
/* Windows has no such signals; elsewhere there is no way that works in a strict C11 file. */
static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    return plim_worker_spawn_(t, stack_size, run, arg);
}

#elif defined(__linux__)

/* Bit s - 1 stands for signal s. Two kinds are not blocked. A fault raises some, which a handler of
 * the program may want to report. 32 and 33 belong to the C library. (4 ILL, 5 TRAP, 6 ABRT, 7 BUS,
 * 8 FPE, 11 SEGV, 31 SYS are the numbers of most machines, and harmless on the others.) */
#define PLIM_FAULTS_ 0xc00004f8u

#if defined(__mips__)
enum { PLIM_SIGSET_SIZE_ = 16 };
#else
enum { PLIM_SIGSET_SIZE_ = 8 };
#endif

/* The mask is inherited, so it is set around the creation: no signal can slip in between. By the
 * system call, because a strict -std=c11 file sees no sigset_t. */
static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    unsigned long saved[PLIM_SIGSET_SIZE_ / sizeof(long)],
        blocked[PLIM_SIGSET_SIZE_ / sizeof(long)];
    int kept = errno;
    for (size_t i = 0; i < PLIM_SIGSET_SIZE_ / sizeof(long); i++) {
        saved[i] = 0;
        blocked[i] = ULONG_MAX;
    }
    blocked[0] &= ~(unsigned long)PLIM_FAULTS_;
    blocked[32 / (8 * sizeof(long))] &= ~(1ul << (32 % (8 * sizeof(long))));
    syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, blocked, saved, PLIM_SIGSET_SIZE_);
    int error = plim_worker_spawn_(t, stack_size, run, arg);
    syscall(SYS_rt_sigprocmask, 2, saved, NULL, PLIM_SIGSET_SIZE_);
    errno = kept;
    return error;
}

#else /* macOS */
#include <signal.h>

static inline int plim_worker_create_(plim_worker_thread *t, size_t stack_size,
                                      plim_worker_result (*run)(void *), void *arg)
{
    sigset_t saved, blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGTRAP);
    sigdelset(&blocked, SIGABRT);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    int error = plim_worker_spawn_(t, stack_size, run, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

#endif

static inline void plim_worker_begins_(const char *name)
{
    plim_worker_uncancel_();
#ifdef __linux__
    syscall(SYS_prctl, 15 /* PR_SET_NAME: takes the first 15 characters */, name, 0, 0, 0);
#else
    (void)name; /* macOS has a call, but not for a strict C11 file */
#endif
}
#endif /* PLIM_PLATFORM */
#endif /* PLIM_WORKERS_ */
