/* The descriptor: how a loop wakes one that it lives in. */

/* The descriptor: an eventfd on Linux, elsewhere a pipe. */
#if defined(PLIM_PLATFORM_FD_)
/* The platform has one of its own, and defines the four functions below. */
#elif defined(PLIM_PLATFORM) || defined(_WIN32)

static inline void loop_scheduler_open_fd_(loop_scheduler *l)
{
    (void)l;
}

PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd)
{
    (void)fd;
}

static inline uint64_t loop_scheduler_read_fd_(loop_scheduler *l)
{
    (void)l;
    return 0;
}

static inline void loop_scheduler_close_fd_(loop_scheduler *l)
{
    (void)l;
}

#else

#include <fcntl.h>
#include <unistd.h>

PLIM_SLOW_ void loop_scheduler_open_fd_(loop_scheduler *l)
{
    int saved = errno;
#ifdef __linux__
    l->fd_ = l->fd_write_ = (int)syscall(SYS_eventfd2, 0, O_NONBLOCK | 02000000 /* O_CLOEXEC */);
#else
    int ends[2];
    if (pipe(ends) == 0) {
        for (int i = 0; i < 2; i++) {
            fcntl(ends[i], F_SETFL, O_NONBLOCK);
            fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        }
        l->fd_ = ends[0];
        l->fd_write_ = ends[1];
    }
#endif
    errno = saved;
}

PLIM_SLOW_ void loop_scheduler_signal_fd_(int fd)
{
    int saved = errno;
#ifdef __linux__
    uint64_t one = 1;
#else
    char one = 1;
#endif
    ssize_t written = write(fd, &one, sizeof one); /* never blocks: so it is not interrupted */
    (void)written;                                 /* if it is full it is readable */
    errno = saved;
}

/* Reads away what was signalled, and returns how often that was. */
PLIM_SLOW_ uint64_t loop_scheduler_read_fd_(loop_scheduler *l)
{
    int saved = errno;
    uint64_t times = 0;
#ifdef __linux__
    if (read(l->fd_, &times, sizeof times) != (ssize_t)sizeof times) {
        times = 0;
    }
#else
    char each;
    while (times < l->fd_owed_ && read(l->fd_, &each, 1) == 1) {
        times++;
    }
#endif
    errno = saved;
    return times;
}

static inline void loop_scheduler_close_fd_(loop_scheduler *l)
{
    int saved = errno;
    if (l->fd_ >= 0) {
        close(l->fd_);
    }
#ifndef __linux__
    if (l->fd_write_ >= 0) {
        close(l->fd_write_);
    }
#endif
    errno = saved;
}

#endif

/*
 * While nobody runs the loop, WATCHED is set if there is a descriptor: the next post makes it
 * readable. If something is left to do it is made so at once. Either way it is owed a read. A
 * signal may come later than the post that it is for, so poll reads until as many have come as were
 * owed.
 */
static inline bool loop_scheduler_watch_fd_(loop_scheduler *l)
{
    uint64_t word = plim_load_relaxed_(&l->word_.word);
    if (l->fd_ < 0) {
        return false;
    }
    l->fd_owed_++;
    if (l->queue_.count != 0 || plim_load_relaxed_(&l->fresh_count_) != 0 || l->recheck_ ||
        loop_scheduler_stage_(l) == PLIM_OVER_) {
        return true; /* over: so that whoever waits for it learns that */
    }
    while (loop_scheduler_newest_(word) == NULL) {
        if (plim_commit_release_(&l->word_, &word, /* with fd_write_, see unwatch_ */
                                 loop_scheduler_step_(0, word | LOOP_SCHEDULER_WATCHED_))) {
            return false;
        }
    }
    return true;
}

/* A thread runs the loop, so none has to signal. Reads away what others have signalled. */
static inline void loop_scheduler_unwatch_fd_(loop_scheduler *l)
{
    if (loop_scheduler_clear_(l, LOOP_SCHEDULER_WATCHED_)) {
        l->fd_owed_--; /* nobody has signalled, and nobody will */
    }
    if (l->fd_owed_ > 0) {
        l->fd_owed_ -= loop_scheduler_read_fd_(l);
    }
}
