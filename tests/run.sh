#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs checks and sums up. Standard input has one check a line, "name: command". A check ends with
# "N passed, N failed" (or what the genuine greatest prints), or counts as one by its exit status;
# status 77 means skipped. Prints a line for each check, the output of those that fail, and the sum.
# Environment: BUILD, LIMIT (seconds for each check).
build=${BUILD:-build}
mkdir -p "$build/log"
limit=$(command -v timeout >/dev/null && echo "timeout ${LIMIT:-1200}") # a hang is a failure
unset LIMIT # not for the checks of a check
passed=0 failed=0 skipped=0
while IFS= read -r line; do
    name=${line%%: *} command=${line#*: }
    log=$build/log/$(printf '%s' "$name" | tr ' /' '__').log
    $limit sh -c "$command" >"$log" 2>&1 </dev/null
    status=$?
    counts=$(awk '
        /^([a-z]+: )?[0-9]+ passed, [0-9]+ failed/ { sub(/^[a-z]+: /, ""); p = $1; f = $3; s = $5 }
        /^Pass: [0-9]+, fail: [0-9]+, skip: [0-9]+/ { p = $2; f = $4; s = $6 }
        END { print p + 0, f + 0, s + 0 }' "$log")
    set -- $counts
    if [ $status -eq 77 ]; then
        reason=$(sed -n 's/^skipped: //p' "$log" | head -n 1)
        printf '  %-34s SKIPPED: %s\n' "$name" "${reason:-it says no more}"
        skipped=$((skipped + 1))
        continue
    fi
    [ $(($1 + $2 + $3)) -gt 0 ] || set -- $((status == 0)) $((status != 0)) 0
    if [ $status -ne 0 ] && [ "$2" -eq 0 ]; then
        set -- "$1" 1 "$3" # died, whatever it had counted
    fi
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    if [ "$2" -ne 0 ]; then
        printf '  %-34s FAILED (status %d): %s\n' "$name" $status "$command"
        sed 's/^/    | /' "$log" | tail -n 80
    elif [ "$3" -ne 0 ]; then
        printf '  %-34s %d passed, %d skipped\n' "$name" "$1" "$3"
        sed -n 's/^ *skipped: /    skipped: /p' "$log"
    else
        printf '  %-34s %d passed\n' "$name" "$1"
    fi
done
[ $skipped -eq 0 ] || more=", $skipped skipped"
echo "$passed passed, $failed failed${more:-}"
[ $failed -eq 0 ]
