#ifndef PLIM_STAGES_H_
#define PLIM_STAGES_H_

/* How far the end of an object has come. It only ever goes on, under the object's lock. */
enum {
    PLIM_OPEN_,
    PLIM_DRAINING_, /* nobody is let in; what was accepted still comes to its end */
    PLIM_ABORTING_, /* what has not begun is ended */
    PLIM_OVER_      /* nothing is left but threads that end */
};

#endif /* PLIM_STAGES_H_ */
