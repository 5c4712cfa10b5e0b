/* tests/compile/last.h - what a file may have included before it comes to us
 * SPDX-License-Identifier: MIT
 *
 * No feature-test macro is defined here, and after this it is too late for one: in a strict
 * -std=c11 file <unistd.h> has then not declared syscall, and <time.h> not CLOCK_MONOTONIC.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

/* C++ before 2023 has no use for these. */
#if !defined(__cplusplus) || __cplusplus > 202002L
#include <stdatomic.h>
#endif
#ifndef __cplusplus
#include <stdbool.h>
#endif

#ifdef __unix__
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>
#if !defined(__cplusplus) && defined(__has_include)
#if __has_include(<threads.h>)
#include <threads.h>
#endif
#endif
#endif
