#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds unit tests for other targets and C libraries and runs them, natively or by qemu and wine:
# word size, byte order, alignment, system call numbers. (Emulation on x86 does not show memory-order
# bugs.) What is not installed is named as skipped.
#
#   cross.sh [-a] [TARGET...]     default: all targets, a program or two of each module, not optimised;
#                                 -a: more programs, optimised
#
# Environment: BUILD.
build=${BUILD:-build}/cross
mkdir -p "$build"
passed=0 failed=0 skipped=0
each="core/test semaphore/test weighted_sem/test bulkhead/test bulkhead/exact loop_scheduler/test
    metrics/test adaptive_limit/test"
programs=$each optimise=-O0
if [ "${1-}" = -a ]; then
    optimise=-O2
    programs="$each composition/test semaphore/failures weighted_sem/failures bulkhead/failures loop_scheduler/failures
        loop_scheduler/corners"
    shift
fi
wanted=${*:-i386 musl aarch64 armhf armhf-time64 s390x windows}

# target NAME COMPILER RUNNER LIBRARIES PROGRAM...
target() {
    name=$1 compiler=$2 runner=$3 libraries=$4
    shift 4
    case " $wanted " in *" $name "*) ;; *) return ;; esac
    printf '#include <stdio.h>\n#include <pthread.h>\nint main(void) { return puts("") < 0; }\n' \
        >"$build/probe-$name.c"
    if ! $compiler "$build/probe-$name.c" -o "$build/probe-$name.exe" 2>/dev/null; then
        echo "skipped: $name, no working compiler ($compiler)"
        skipped=$((skipped + 1))
        return
    fi
    if ! $runner "$build/probe-$name.exe" >/dev/null 2>&1; then
        echo "skipped: $name, cannot run its programs ($runner)"
        skipped=$((skipped + 1))
        return
    fi
    for program; do
        out=$build/$name-$(echo "$program" | tr / _).exe
        if $compiler -std=c11 $optimise -Wall -Wextra -Werror -Wno-psabi "tests/$program.c" -o "$out" \
            -pthread $libraries && timeout 300 $runner "$out" >"$out.log" 2>&1; then
            echo "$name $program: $(tail -n 1 "$out.log")"
            passed=$((passed + 1))
        else
            echo "FAILED: $name $program"
            tail -n 20 "$out.log"
            failed=$((failed + 1))
        fi
    done
}

# Emulated CPUs are slow: fewer rounds of the loops that look for rare races.
TEST_SCALE=10
export TEST_SCALE

target i386 "gcc -m32 -idirafter /usr/include/x86_64-linux-gnu" "" "" $programs
target musl musl-gcc "" "" $programs
target aarch64 "aarch64-linux-gnu-gcc -static" qemu-aarch64 "" $programs
target armhf "arm-linux-gnueabihf-gcc -static" qemu-arm "" $programs
target armhf-time64 "arm-linux-gnueabihf-gcc -static -D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64" \
    qemu-arm "" $programs
target s390x "s390x-linux-gnu-gcc -static" qemu-s390x "" $programs

# The other programs need what only POSIX has.
WINEPREFIX=$(cd "$build" && pwd)/wine WINEDEBUG=-all
export WINEPREFIX WINEDEBUG
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
target windows "x86_64-w64-mingw32-gcc -static" "$wine" -lsynchronization $each

[ $((passed + failed)) -gt 0 ] || exit 77
[ $skipped -eq 0 ] || more=", $skipped skipped"
echo "$passed passed, $failed failed${more:-}"
[ $failed -eq 0 ]
