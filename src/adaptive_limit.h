#include "adaptive_limit/manual.h"
#ifndef PLIM_ADAPTIVE_LIMIT_H
#define PLIM_ADAPTIVE_LIMIT_H
#include "adaptive_limit/api.h"

/* How it is done. This file is assembled from src/ by `make stamp`: edit it there. */
#include "core/platform.h"

#include "adaptive_limit/object.h"
#include "adaptive_limit/window.h"
#include "adaptive_limit/rules.h"
#include "adaptive_limit/calls.h"

#endif /* PLIM_ADAPTIVE_LIMIT_H */
#include "core/licence.h"
