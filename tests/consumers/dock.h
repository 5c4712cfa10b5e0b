/* dock.h - what the files of this little project share: one object of each header
 * SPDX-License-Identifier: MIT
 */
#ifndef DOCK_H
#define DOCK_H

#include <plimsoll/semaphore.h>
#include <plimsoll/weighted_sem.h>
#include <plimsoll/bulkhead.h>
#include <plimsoll/loop_scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dock {
    csem berths;
    weighted_sem quay;
    bulkhead crane; /* one permit */
    loop_scheduler office;
    int jobs; /* of the program, that the crane has accepted */
} dock;

/* dock.c: owns the dock, alone or as a shared library */
dock *dock_open(void); /* NULL: failed */
int dock_submit(bulkhead_job *job);
int dock_close(void);

/* crew.c: uses the dock of somebody else */
int crew_works(dock *d);
int crew_calls_back(loop_scheduler *caller); /* on a loop of its own, calls the caller's: EDEADLK */

#ifdef __cplusplus
}
#endif

#endif /* DOCK_H */
