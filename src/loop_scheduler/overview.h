#include <string.h>

/*
 * How it works.
 *
 *   types         and the lock
 *   word          what posters and the loop share, and nothing else
 *   queue         from the word to what runs next, under the lock
 *   turn          and the sleep between two
 *   descriptor    for a loop that lives in another one
 *   run, thread   the thread that runs it: the caller's, or one of its own
 *   post, call, timer_calls, offload, coroutines
 *   close         the end
 *   init, calls   the API, with its fast paths
 *   health
 *
 * Two things are shared. The word is all that a poster touches, with one compare-exchange. The lock
 * protects the rest, and is held for a few instructions. The loop takes it once for each task. So
 * do calls that cancel, start timers, close, or ask. No function of the user's is ever called under
 * it. So a cancel has a definite answer: it and the loop cannot both have the task.
 */
