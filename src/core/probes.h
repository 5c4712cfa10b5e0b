#ifndef PLIM_PROBES_H_
#define PLIM_PROBES_H_

/*
 * Probes: with PLIM_USDT defined, places that bpftrace, perf or SystemTap can watch in a
 * running program. Each costs a nop. They need <sys/sdt.h> (Debian's systemtap-sdt-dev). Without
 * PLIM_USDT they are nothing. docs/probes.md has the list, and what to do with it.
 */
#if defined(PLIM_USDT) && defined(__clang__) /* whose -Wpedantic minds a macro of sys/sdt.h */
#include <sys/sdt.h>
#define PLIM_PROBE_(name, a, b) \
    do { \
        _Pragma("clang diagnostic push") \
            _Pragma("clang diagnostic ignored \"-Wgnu-zero-variadic-macro-arguments\"") \
                DTRACE_PROBE2(plimsoll, name, (a), (b)); \
        _Pragma("clang diagnostic pop") \
    } while (0)
#elif defined(PLIM_USDT)
#include <sys/sdt.h>
#define PLIM_PROBE_(name, a, b) DTRACE_PROBE2(plimsoll, name, (a), (b))
#else
#define PLIM_PROBE_(name, a, b) ((void)0)
#endif

#endif /* PLIM_PROBES_H_ */
