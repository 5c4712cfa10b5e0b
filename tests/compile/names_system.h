/* tests/compile/names_system.h - the system headers whose names are nearest to ours
 * SPDX-License-Identifier: MIT
 *
 * names.sh includes it before our headers, and after them. Also headers with short, common names:
 * a parameter of ours called like one of their macros would show.
 */
#include <complex.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <mach/semaphore.h> /* ours in stub/, unless this is a Mac */

#if defined(__has_include)
#if __has_include(<threads.h>)
#include <threads.h>
#endif
#if __has_include(<linux/loop.h>)
#include <linux/loop.h>
#endif
#if __has_include(<sys/epoll.h>)
#include <sys/epoll.h>
#include <sys/eventfd.h>
#endif
#endif

#ifdef __cplusplus
#include <thread>
#include <mutex>
#include <condition_variable>
#if __cplusplus >= 202002L
#include <semaphore>
#endif
using namespace std; /* as some do; then std::semaphore would be ours to run into */
#endif
