#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs semaphore.h, as it ships, under the Relacy Race Detector (test_semaphore.cc). Then weakens
# each acquire and release in it to relaxed, one at a time, and expects Relacy to find fault: so the
# memory orders are enough, and none is more than that.
#
#   CXX         the C++ compiler (g++)
#   BUILD       where to build (build)
#   ITERATIONS  executions per scenario in the random search (100000)

set -u
here=$(cd "$(dirname "$0")" && pwd)
header=$here/../../semaphore.h
CXX=${CXX:-g++}
BUILD=${BUILD:-build}
ITERATIONS=${ITERATIONS:-100000}
export ITERATIONS
dir=$BUILD/relacy
passed=0
failed=0

mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
rm -f "$dir"/*

if ! echo '#include <relacy/relacy.hpp>' | $CXX -std=c++11 -E -x c++ - >"$dir/probe" 2>&1; then
    if grep -q 'relacy\.hpp' "$dir/probe"; then
        echo "skipped: relacy-dev is not installed"
        exit 77
    fi
    cat "$dir/probe" # another trouble, such as no compiler
    exit 1
fi
rm -f "$dir/probe"

# build program header option...: compiles the test with a header, to $dir/program; says what the
# compiler said if it fails. Relacy moves between its threads with longjmp, which glibc's fortified
# headers take for an attack.
build()
{
    program=$dir/$1
    with=$2
    shift 2
    $CXX -std=c++11 -Wall -Wextra -U_FORTIFY_SOURCE -DRL_DO_ASSERT=1 -DSEMAPHORE_H="\"$with\"" \
        -I"$here" "$@" "$here/test_semaphore.cc" -o "$program" >"$program.cc.log" 2>&1 && return 0
    cat "$program.cc.log"
    return 1
}

# sites [n]: lists each use of an ordered operation in the header, one per line, as the line number,
# the name and the function it stands in; with n, writes the header with the n-th of them relaxed.
# Not counted: definitions and declarations, which start in the first column, comments, and the
# parts that are not compiled here (PLIM_PARK_CND, the platform's own).
sites()
{
    awk -v want="${1:-0}" '
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
            text = $0
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
                n++
                if (want == 0) {
                    print NR, name, fn
                }
                if (want == n) {
                    to = name
                    sub(/acquire|release/, "relaxed", to)
                    text = done substr(code, 1, RSTART - 1) to substr(code, RSTART + RLENGTH - 1)
                }
                done = done substr(code, 1, RSTART + RLENGTH - 1)
                code = substr(code, RSTART + RLENGTH)
            }
            if (want != 0) {
                print text
            }
        }' "$header"
}

# ---- The header as it is -------------------------------------------------------------------------

if build original "$header" -O1 && "$dir/original" >"$dir/original.log"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
[ -f "$dir/original.log" ] && cut -c 1-200 "$dir/original.log"

# ---- Its mutants ---------------------------------------------------------------------------------

sites >"$dir/sites"
if [ ! -s "$dir/sites" ]; then
    echo "FAILED  no ordered operation found in $header: has the core changed?"
    failed=$((failed + 1))
fi

n=0
while read -r line name fn; do
    n=$((n + 1))
    mutant=mutant$n
    sites $n >"$dir/$mutant.h"
    changes=$(diff "$header" "$dir/$mutant.h" | grep -c '^>')
    if [ "$changes" -ne 1 ] || ! build $mutant "$dir/$mutant.h" -O0 -DRANDOM_ONLY; then
        echo "BROKEN  $name in $fn (line $line)"
        failed=$((failed + 1))
        continue
    fi
    "$dir/$mutant" -x >"$dir/$mutant.log"
    case $? in
    0)
        echo "SURVIVED $name in $fn (line $line)"
        failed=$((failed + 1))
        ;;
    1)
        echo "killed  $name in $fn"
        sed -n 's/^FAILED \(.*\), random: .* ms: \(.*\)/            by \1: \2/p' "$dir/$mutant.log"
        passed=$((passed + 1))
        ;;
    *) # the checker itself fell over: not a verdict
        echo "BROKEN  $name in $fn (line $line), see $dir/$mutant.log"
        failed=$((failed + 1))
        ;;
    esac
done <"$dir/sites"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
