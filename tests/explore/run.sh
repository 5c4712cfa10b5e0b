#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the schedule explorer over the shipped header, then over each seeded fault of mutants.txt,
# which it must find.   run.sh [quick]   quick: only the shipped header, few preemptions.
# Environment: CC, BUILD.
set -u
cc=${CC:-cc} build=${BUILD:-build} here=tests/explore
flags="-std=c11 -O2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -iquote $here"
mkdir -p "$build/explore"
root=$(cd "$build/explore" && pwd)

if ! printf '#include <ucontext.h>\nint main(void) { getcontext(0); makecontext(0, 0, 0); }\n' |
    $cc -w -x c - -o "$build/explore/probe" 2>/dev/null; then
    echo "skipped: the schedule explorer needs makecontext(), and this C library has none"
    exit 77
fi

# make_explorer DIRECTORY HEADER: one as it ships, one with the small fields of the word at 1 bit
make_explorer() {
    mkdir -p "$1"
    $cc $flags $3 -DPLIM_HEADER="\"$2\"" $here/explore.c $here/semaphore.c -o "$1/explore" &&
        $cc $flags $3 -DPLIM_HEADER="\"$2\"" -DEXPLORE_TIGHT $here/explore.c $here/semaphore.c \
            -o "$1/explore_tight"
}

passed=0 failed=0
check() {
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

check make_explorer "$build/explore" "$(pwd)/semaphore.h" ""
if [ "${1:-}" = quick ]; then
    check "$build/explore/explore" -b 2 -n 2000
    echo "with small limits:"
    check "$build/explore/explore_tight" -b 2 -n 2000
    echo "$passed passed, $failed failed"
    exit $((failed != 0))
fi

echo "the shipped header:"
check "$build/explore/explore" -n 20000
echo "the same with small limits, up to 3 preemptions:"
check "$build/explore/explore_tight" -b 3 -n 20000

# found DIRECTORY: does any explorer find the fault? A quick look first, a long one if need be.
found() {
    for bound in 2 0; do
        for explorer in explore explore_tight; do
            if ! "$1/$explorer" -f -b $bound >"$1/log"; then
                why=$(sed -n 's/^    FAILED: //p' "$1/log" | head -n 1)
                case $why in
                *"did not end in its time"*) ;;
                *) return 0 ;;
                esac
            fi
        done
    done
    return 1
}

echo "seeded faults, each of which must be found:"
faults=$(grep -c '^# ' $here/mutants.txt)
n=0
while [ $n -lt "$faults" ]; do
    n=$((n + 1))
    name=$(grep '^# ' $here/mutants.txt | sed -n "${n}s/^# //p")
    mutant=$build/explore/mutant$n
    mkdir -p "$mutant"
    if ! awk -v list=$here/mutants.txt -v number=$n -f tools/mutate.awk semaphore.h \
        >"$mutant/semaphore.h" || ! make_explorer "$mutant" "$root/mutant$n/semaphore.h" -w; then
        echo "  NOT BUILT  $name"
        failed=$((failed + 1))
    elif found "$mutant"; then
        echo "  found      $name ($why)"
        passed=$((passed + 1))
    else
        echo "  SURVIVED   $name"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
