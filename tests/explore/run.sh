#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the schedule explorer over the shipped headers, then over each seeded fault of
# mutants_NAME.txt, which it must find.   run.sh [quick] [NAME...]
# quick: only the shipped headers, few preemptions. Environment: CC, BUILD.
set -u
cc=${CC:-cc} build=${BUILD:-build} here=tests/explore
flags="-std=c11 -O2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -iquote $here"
quick=''
if [ "${1-}" = quick ]; then
    quick=yes
    shift
fi
mkdir -p "$build/explore"
root=$(cd "$build/explore" && pwd)

if ! printf '#include <ucontext.h>\nint main(void) { getcontext(0); makecontext(0, 0, 0); }\n' |
    $cc -w -x c - -o "$build/explore/probe" 2>/dev/null; then
    echo "skipped: the schedule explorer needs makecontext(), and this C library has none"
    exit 77
fi

# make_explorer NAME DIRECTORY HEADER FLAGS: one as it ships, one with the small fields of the
# counter's word at 1 bit
make_explorer() {
    mkdir -p "$2"
    $cc $flags $4 -DPLIM_HEADER="\"$3\"" $here/explore.c "$here/$1.c" -o "$2/explore" || return 1
    [ "$1" != semaphore ] ||
        $cc $flags $4 -DPLIM_HEADER="\"$3\"" -DEXPLORE_TIGHT $here/explore.c "$here/$1.c" \
            -o "$2/explore_tight"
}

passed=0 failed=0
check() {
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# found DIRECTORY: does any explorer find the fault? A quick look first, a long one if need be.
found() {
    for bound in 1 2 0; do
        for explorer in "$1"/explore*; do
            if ! "$explorer" -f -b $bound >"$1.log"; then
                why=$(sed -n 's/^    FAILED: //p' "$1.log" | head -n 1)
                case $why in
                *"did not end in its time"*) ;;
                *) return 0 ;;
                esac
            fi
        done
    done
    return 1
}

# seed_faults NAME
seed_faults() {
    list=$here/mutants_$1.txt
    faults=$(grep -c '^# ' "$list")
    n=0
    while [ $n -lt "$faults" ]; do
        n=$((n + 1))
        fault=$(grep '^# ' "$list" | sed -n "${n}s/^# //p")
        mutant=explore/$1/mutant$n
        mkdir -p "$build/$mutant"
        if ! awk -v list="$list" -v number=$n -f tools/mutate.awk "$1.h" \
            >"$build/$mutant.h" || ! make_explorer "$1" "$build/$mutant" "$root/$1/mutant$n.h" -w; then
            echo "  NOT BUILT  $fault"
            failed=$((failed + 1))
        elif found "$build/$mutant"; then
            echo "  found      $fault ($why)"
            passed=$((passed + 1))
        else
            echo "  SURVIVED   $fault"
            failed=$((failed + 1))
        fi
    done
}

for name in ${*:-semaphore weighted_sem bulkhead}; do
    at=$build/explore/$name
    check make_explorer "$name" "$at" "$(pwd)/$name.h" ""
    for explorer in "$at"/explore*; do
        case $explorer in
        *_tight) echo "$name.h with small limits, up to 3 preemptions:" && bound='-b 3' ;;
        *) echo "$name.h as it ships:" && bound='' ;;
        esac
        if [ -n "$quick" ]; then
            bound=$([ "$name" = semaphore ] && echo '-b 2 -n 2000' || echo '-b 1 -n 500')
        else
            bound="$bound -n 20000"
        fi
        check "$explorer" $bound
    done
    if [ -z "$quick" ]; then
        echo "seeded faults of $name.h, each of which must be found:"
        seed_faults "$name"
    fi
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
