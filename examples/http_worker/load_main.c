/* SPDX-License-Identifier: MIT
 *
 * The client of load.h as a program:
 *
 *     load PORT [PER_SECOND [SECONDS [TARGET [CONNECTIONS [SEED]]]]]
 *
 * PER_SECOND 0 is a rush: as many requests as connections, all at once. The exit status is 1 if
 * something stayed unanswered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "load.h"

#ifdef __linux__

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PORT [PER_SECOND [SECONDS [TARGET [CONNECTIONS [SEED]]]]]\n",
                argv[0]);
        return 2;
    }
    load_options options = {.port = (uint16_t)atoi(argv[1]),
                            .per_second = argc > 2 ? atof(argv[2]) : 100,
                            .duration_ns = (int64_t)((argc > 3 ? atof(argv[3]) : 10) * 1e9),
                            .target = argc > 4 ? argv[4] : "/",
                            .connections = argc > 5 ? (uint32_t)atoi(argv[5]) : 64,
                            .seed = argc > 6 ? strtoull(argv[6], NULL, 0) : (uint64_t)time(NULL)};
    options.requests = options.per_second > 0 ? LOAD_REQUESTS_MAX : options.connections;
    load_result result;
    int error = load_run(&options, &result);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(error));
        return 2;
    }
    printf("%.0f requests a second on average, %u connections, seed %llu\n", options.per_second,
           options.connections, (unsigned long long)options.seed);
    load_print(stdout, &result);
    return result.answered == result.meant ? 0 : 1;
}

#else

int main(void)
{
    printf("skipped: there is no epoll on this system\n");
    return 77;
}

#endif
