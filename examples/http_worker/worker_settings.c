/* SPDX-License-Identifier: MIT
 *
 * The settings of a worker: the defaults, and the variables of the environment before them.
 */
#include "worker.h"

#ifdef __linux__

#include <stdlib.h>
#include <string.h>

worker_options worker_defaults(void)
{
    worker_options options = {.permits = 10, .queue = 20, .single_thread = true};
    return options;
}

static int read_flag(const char *name, bool *value, const char **wrong)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        *wrong = name;
        return EINVAL;
    }
    *value = strcmp(text, "true") == 0;
    return 0;
}

int worker_options_from_env(worker_options *options, const char **wrong)
{
    static const bulkhead_names fallback = {.permits = "WORKER_DEFAULT_REQUEST_CONCURRENCY",
                                            .queue = "WORKER_DEFAULT_MAX_QUEUE_LENGTH"},
                                names = {.permits = "WORKER_REQUEST_CONCURRENCY",
                                         .queue = "WORKER_MAX_QUEUE_LENGTH"};
    bulkhead_options limits = {.permits = options->permits, .queue = options->queue};
    bool single_thread = options->single_thread;
    int error = bulkhead_options_from_names(&limits, &fallback, wrong);
    error = error != 0 ? error : bulkhead_options_from_names(&limits, &names, wrong);
    error =
        error != 0 ? error : read_flag("WORKER_DEFAULT_USE_SINGLE_THREAD", &single_thread, wrong);
    error = error != 0 ? error : read_flag("WORKER_USE_SINGLE_THREAD", &single_thread, wrong);
    if (error == 0) {
        options->permits = limits.permits;
        options->queue = limits.queue;
        options->single_thread = single_thread;
    }
    return error;
}

#endif
