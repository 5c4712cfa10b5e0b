#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the checks of tests/checks.list that stand in the named sections, three at once for two CPUs,
# since many of them wait, and sums up.
#
#   tests/run.sh SECTION...          run.sh -l SECTION...   lists them and runs none
#
# A check says "N passed, N failed" in the end (or what the genuine greatest prints), or it counts
# as one by its exit status; 77 means skipped. Prints a line for each check with its seconds, the
# output of those that fail, the seconds of each section, and the sum. On a terminal a last line
# shows what is done, what runs and what is left.
# Environment: JOBS (checks at once), LIMIT (seconds for each), LIST, BUILD, CC, CXX.
set -u
build=${BUILD:-build} list=${LIST:-tests/checks.list} MAKE=${MAKE:-make}
cpus=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
slots=${JOBS:-$((cpus + cpus / 2))}
limit=$(command -v timeout >/dev/null && echo "timeout ${LIMIT:-1200}") # a hang is a failure
dir=$build/run.$$
mkdir -p "$build/log" "$dir"
BUILD=$build
export BUILD MAKE
unset LIMIT LIST MAKEFLAGS MFLAGS MAKELEVEL # not for the checks of a check, nor for their makes

# The checks, those marked `alone` last: number, section, a or -, name, command, by tabs.
listing=''
if [ "${1-}" = -l ]; then
    listing=yes
    shift
fi
awk -v wanted=" $* " -v build="$build" -f tests/checks.awk "$list" >"$dir/checks" || { rm -r "$dir" && exit 1; }
if [ -n "$listing" ]; then
    cut -f 2,4,5 "$dir/checks"
    rm -r "$dir"
    exit 0
fi
total=$(awk 'END { print NR }' "$dir/checks")
# What splits its work by itself does so only if it has the machine to itself.
JOBS=1
[ "$total" -gt 1 ] || JOBS=$slots
export JOBS

# Whatever ends says so in a pipe: the number of a check, or "tick" each second on a terminal.
mkfifo "$dir/ended" || exit 1
exec 9<>"$dir/ended"
began=$(date +%s)
tick=''
if [ -t 1 ]; then
    (while sleep 1; do echo tick; done >&9) &
    tick=$!
fi
tidy() {
    [ -z "$tick" ] || kill "$tick" 2>/dev/null
    rm -rf "$dir"
}
give_up() {
    cat "$dir"/*.pid 2>/dev/null | xargs kill 2>/dev/null
    tidy
    exit 130
}
trap give_up INT TERM HUP

# begin NUMBER NAME COMMAND
begin() {
    log=$build/log/$(printf '%s' "$2" | tr ' /' '__').log
    printf '%s' "$log" >"$dir/$1.log"
    date +%s >"$dir/$1.began"
    {
        $limit sh -c "$3" >"$log" 2>&1 </dev/null 9>&- &
        echo $! >"$dir/$1.pid"
        wait $!
        echo $? >"$dir/$1.status"
        rm -f "$dir/$1.pid"
        echo "$1" >&9
    } &
    running=$((running + 1))
}

status_line() {
    [ -n "$tick" ] || return 0
    names=$(cd "$dir" && for f in *.pid; do [ "$f" = '*.pid' ] || sed -n "$((${f%.pid} + 0))p" checks; done |
        cut -f 4 | tr '\n' ' ')
    printf '\r\033[K%.*s' "$(($(tput cols 2>/dev/null || echo 80) - 1))" \
        "$ended done, $running running ($names), $((total - ended - running)) left, $(($(date +%s) - began)) s"
}

# report NUMBER: its line, and its output if it failed
report() {
    title=$(sed -n "${1}p" "$dir/checks" | cut -f 4) log=$(cat "$dir/$1.log") status=$(cat "$dir/$1.status")
    seconds=$(($(date +%s) - $(cat "$dir/$1.began")))
    [ -z "$tick" ] || printf '\r\033[K'
    set -- $(awk '
        /^([a-z]+: )?[0-9]+ passed, [0-9]+ failed/ { sub(/^[a-z]+: /, ""); p = $1; f = $3; s = $5 }
        /^Pass: [0-9]+, fail: [0-9]+, skip: [0-9]+/ { p = $2; f = $4; s = $6 }
        END { print p + 0, f + 0, s + 0 }' "$log")
    if [ "$status" -eq 77 ]; then
        reason=$(sed -n 's/^skipped: //p' "$log" | head -n 1)
        printf '  %-34s SKIPPED: %s\n' "$title" "${reason:-it says no more}"
        skipped=$((skipped + 1))
        return
    fi
    [ $(($1 + $2 + $3)) -gt 0 ] || set -- $((status == 0)) $((status != 0)) 0
    if [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then
        set -- "$1" 1 "$3" # died, whatever it had counted
    fi
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    if [ "$2" -ne 0 ]; then
        printf '  %-34s FAILED (status %d, %d s): %s\n' "$title" "$status" "$seconds" "$log"
        sed 's/^/    | /' "$log" | tail -n 80
    else
        more=''
        [ "$3" -eq 0 ] || more=", $3 skipped"
        printf '  %-34s %5d passed%s, %d s\n' "$title" "$1" "$more" "$seconds"
        sed -n 's/^ *skipped: /    skipped: /p' "$log"
    fi
}

running=0 ended=0 passed=0 failed=0 skipped=0
# await MOST: until at most so many run
await() {
    while [ "$running" -gt "$1" ]; do
        status_line
        read -r which <&9
        [ "$which" != tick ] || continue
        running=$((running - 1)) ended=$((ended + 1))
        date +%s >"$dir/$which.ended"
        report "$which"
    done
}
tab=$(printf '\t')
while IFS=$tab read -r number section alone name command; do
    await $((slots - 1))
    [ "$alone" = - ] || await 0
    begin "$number" "$name" "$command"
    [ "$alone" = - ] || await 0
done <"$dir/checks"
await 0
[ -z "$tick" ] || printf '\r\033[K'

while IFS=$tab read -r number section rest; do
    echo "$section $(cat "$dir/$number.began") $(cat "$dir/$number.ended")"
done <"$dir/checks" | awk '
    !($1 in from) { order[++sections] = $1; from[$1] = $2 }
    { if ($2 < from[$1]) from[$1] = $2; if ($3 > to[$1]) to[$1] = $3; busy += $3 - $2 }
    END { for (i = 1; i <= sections; i++) printf "%s%s %d s", (i == 1 ? "seconds: " : ", "), order[i], to[order[i]] - from[order[i]]
          printf "; one after the other they would take %d s\n", busy }'
echo "$(($(date +%s) - began)) s in all"
tidy
[ $skipped -eq 0 ] || more=", $skipped skipped"
[ $skipped -ne 0 ] || more=''
echo "$passed passed, $failed failed$more"
[ $failed -eq 0 ]
