#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs headers, as they ship, under the Relacy Race Detector. Then weakens each acquire and release
# in them to relaxed, one at a time, and expects Relacy to find fault: so the memory orders are
# enough, and none is more than that.
#
#   tests/relacy/run.sh [PART...]     all of them, if none is named:
#
#   counter    semaphore.h, by test_semaphore.cc
#   gate       weighted_sem.h, by test_gate.cc; the counter in it is left to the first
#   loop       loop_scheduler.h, by test_loop.cc; likewise
#   bulkhead   bulkhead.h, by test_bulkhead.cc; all that it shares with these is left to them
#
#   CXX         the C++ compiler (g++)
#   BUILD       where to build (build)
#   ITERATIONS  executions per scenario in the random search (100000)

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
CXX=${CXX:-g++}
BUILD=${BUILD:-build}
ITERATIONS=${ITERATIONS:-100000}
export ITERATIONS
passed=0
failed=0

# build program header option...: compiles the part's test with a header, to $dir/program; says what
# the compiler said if it fails. Relacy moves between its threads with longjmp, which glibc's
# fortified headers take for an attack. Its atomics make some types too clever for offsetof.
build()
{
    program=$dir/$1
    with=$2
    shift 2
    $CXX -std=c++11 -Wall -Wextra -Wno-invalid-offsetof -U_FORTIFY_SOURCE -DRL_DO_ASSERT=1 \
        -DHEADER="\"$with\"" -I"$here" "$@" "$here/$test.cc" -o "$program" \
        >"$program.cc.log" 2>&1 && return 0
    cat "$program.cc.log"
    return 1
}

# sites header [rewrite]: lists each use of an ordered operation in the header, one per line, as its
# number, the line, the name and the function it stands in; or writes the header with those numbers
# in it: plim_cas_acquire_(p, ...) as plim_cas_site_(7, acquire, p, ...), see platform.h.
# Not counted: definitions and declarations, which start in the first column, comments, and the
# parts that are not compiled here (PLIM_PARK_CND, the platform's own).
sites()
{
    awk -v rewrite="${2:-}" '
        BEGIN {
            ordered = "plim_(cas|commit|load|store|add|sub|exchange|fence)_(acquire|release)_[(]"
        }
        /^#if/ {
            off[++depth] = /^#ifdef PLIM_PARK_CND/ || /^#ifndef PLIM_PLATFORM/
            platform[depth] = /^#ifdef PLIM_PLATFORM/
        }
        /^#else/ || /^#elif/ { off[depth] = platform[depth] }
        /^#endif/ { depth-- }
        {
            code = $0
            skip = code !~ /^ +[^ *]/ || code ~ /^ +\/[*]/
            for (i = 1; i <= depth; i++) {
                skip = skip || off[i]
            }
            if (code ~ /^[A-Za-z]/ && match(code, /[a-z_0-9]+\(/)) {
                fn = substr(code, RSTART, RLENGTH - 1)
            }
            done = ""
            while (!skip && match(code, ordered)) {
                name = substr(code, RSTART, RLENGTH - 1)
                split(name, word, "_")
                n++
                if (!rewrite) {
                    print n, NR, name, fn
                }
                done = done substr(code, 1, RSTART - 1) \
                       "plim_" word[2] "_site_(" n ", " word[3] ", "
                code = substr(code, RSTART + RLENGTH)
            }
            if (rewrite) {
                print done code
            }
        }' "$1"
}

# The numbers are all that a rewritten header has more than the one that ships.
unnumbered()
{
    sed -E 's/(plim_[a-z]+)_site_\([0-9]+, ([a-z]+), /\1_\2_(/g' "$1"
}

fails()
{
    echo "$1"
    failed=$((failed + 1))
}

# part name test header [other header...]: weakens what stands in functions that the others have not
part()
{
    dir=$BUILD/relacy/$1
    test=$2
    header=$top/$3
    shift 3
    mkdir -p "$dir" || exit 1
    dir=$(cd "$dir" && pwd)
    rm -f "$dir"/*

    # ---- The header as it is

    if build original "$header" -O1 && "$dir/original" >"$dir/original.log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    [ -f "$dir/original.log" ] && cut -c 1-200 "$dir/original.log"

    # ---- Its mutants: one program, which is told at its start what to weaken. It runs for less time
    # than an optimiser would.

    sites "$header" >"$dir/sites"
    for other in "$@"; do
        sites "$top/$other" >"$dir/theirs"
        awk 'NR == FNR { theirs[$4] = 1; next } !($4 in theirs)' "$dir/theirs" "$dir/sites" \
            >"$dir/rest"
        mv "$dir/rest" "$dir/sites"
    done
    if [ ! -s "$dir/sites" ]; then
        fails "FAILED  no ordered operation found in $header: has it changed?"
        return
    fi
    sites "$header" rewrite >"$dir/numbered.h"
    if ! unnumbered "$dir/numbered.h" | cmp - "$header" ||
        ! build mutants "$dir/numbered.h" -O0 -DRANDOM_ONLY; then
        fails "BROKEN  the header with numbered operations"
        return
    fi
    while read -r n line name fn; do
        log=$dir/mutant$n.log
        WEAK=$n "$dir/mutants" -x >"$log" 2>&1
        case $? in
        0)
            fails "SURVIVED $name in $fn (line $line)"
            ;;
        1)
            echo "killed  $name in $fn"
            sed -n 's/^FAILED \(.*\), random: .* ms: \(.*\)/            by \1: \2/p' "$log"
            passed=$((passed + 1))
            ;;
        *) # the checker itself fell over: not a verdict
            fails "BROKEN  $name in $fn (line $line), see $log"
            ;;
        esac
    done <"$dir/sites"
}

mkdir -p "$BUILD/relacy" || exit 1
probe=$BUILD/relacy/probe.$$
if ! echo '#include <relacy/relacy.hpp>' | $CXX -std=c++11 -E -x c++ - >"$probe" 2>&1; then
    if grep -q 'relacy\.hpp' "$probe"; then
        rm -f "$probe"
        echo "skipped: relacy-dev is not installed"
        exit 77
    fi
    cat "$probe" # another trouble, such as no compiler
    rm -f "$probe"
    exit 1
fi
rm -f "$probe"

[ $# -gt 0 ] || set -- counter gate loop bulkhead
for name in "$@"; do
    case $name in
    counter) part counter test_semaphore semaphore.h ;;
    gate) part gate test_gate weighted_sem.h semaphore.h ;;
    loop) part loop test_loop loop_scheduler.h semaphore.h ;;
    bulkhead)
        part bulkhead test_bulkhead bulkhead.h semaphore.h weighted_sem.h loop_scheduler.h
        ;;
    *)
        echo "no such part: $name"
        exit 1
        ;;
    esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
