#!/bin/sh
# SPDX-License-Identifier: MIT
# The worker as a program, in both modes: its settings, SIGTERM under load with every request
# answered, and the balance that it prints. Or:
#
#   program.sh page      does a browser show the page, and the figures of a worker that is full?
#   program.sh mhd       the same limit in libmicrohttpd, loaded and stopped in the same way
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
dir=$build/http_worker.$$
passed=0 failed=0 worker='' load=''

tidy()
{
    [ -z "$worker" ] || kill -9 "$worker" 2>/dev/null
    [ -z "$load" ] || kill -9 "$load" 2>/dev/null
    rm -rf "$dir"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP

check() # what, command...
{
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $what"
        cat "$dir/worker" "$dir/load"
    fi
}

# Waits until a file has a line; at most 30 s.
await() # file, pattern
{
    for _ in $(seq 300); do
        grep -q -e "$2" "$1" && return 0
        sleep 0.1
    done
    return 1
}

start_worker() # VARIABLE=VALUE...
{
    : >"$dir/worker" # else what the last one said could be taken for this one's
    env "$@" "$build/examples/http_worker/$program" 0 0 >"$dir/worker" 2>&1 &
    worker=$!
    check "the worker begins" await "$dir/worker" '^at once\|^skipped'
    if grep '^skipped' "$dir/worker"; then
        exit 77
    fi
    calls=$(sed -n 's/^calls: .*127.0.0.1:\([0-9]*\).*/\1/p' "$dir/worker")
    control=$(sed -n 's/^control: .*127.0.0.1:\([0-9]*\).*/\1/p' "$dir/worker")
}

start_load() # per second, seconds, target
{
    "$build/examples/http_worker/load_main" "$calls" "$1" "$2" "$3" 300 1 >"$dir/load" 2>&1 &
    load=$!
}

# Until somebody who comes is refused; at most 30 s.
await_full()
{
    for _ in $(seq 300); do
        "$build/examples/http_worker/load_main" "$calls" 0 1 '/query?ms=1' 1 1 | grep -q '^ *429 ' && return 0
        sleep 0.1
    done
    return 1
}

# Was every connection that there was served to its end? (Those after the stop are refused.)
nobody_was_left()
{
    grep -q ' [1-9][0-9]* refused, 0 broken, 0 late' "$dir/load"
}

stop_under_load()
{
    start_load 1000 2 '/query?ms=20'
    check "it is full" await_full
    kill -TERM "$worker"
    wait "$worker"
    check "the worker's exit status is $?" [ $? = 0 ]
    worker=''
    wait "$load"
    load=''
    check "somebody had no answer" nobody_was_left
}

stop_worker() # what it says of the mode, VARIABLE=VALUE...
{
    mode=$1
    shift
    start_worker WORKER_REQUEST_CONCURRENCY=4 WORKER_DEFAULT_REQUEST_CONCURRENCY=9 \
        WORKER_MAX_QUEUE_LENGTH= WORKER_DEFAULT_MAX_QUEUE_LENGTH=8 "$@"
    check "its settings" grep -q "^at once: 4, waiting: 8, $mode" "$dir/worker"
    stop_under_load
    check "the balance" grep -q '^[1-9][0-9]* requests = [1-9][0-9]* answered + 0 lost + 0 taken' "$dir/worker"
    check "handlers at once" grep -q '^at most 4 handlers at once, [1-9]' "$dir/worker"
}

# What is written into an element of the page.
shown() # id
{
    sed -n "s/.*id=\"$1\">\([^<]*\)<.*/\1/p" "$dir/page"
}

look_at_page()
{
    start_worker WORKER_REQUEST_CONCURRENCY=3 WORKER_MAX_QUEUE_LENGTH=7
    start_load 200 60 '/query?ms=60000'
    check "it is full" await_full
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$dir/chromium" --virtual-time-budget=3000 --dump-dom \
        "http://127.0.0.1:$control/" >"$dir/page" 2>"$dir/chromium.log"
    check "chromium ends well" [ $? = 0 ]
    for id in in_use:3 permits:3 queued:7 queue:7; do
        check "$id: $(shown "${id%:*}")" [ "$(shown "${id%:*}")" = "${id#*:}" ]
    done
    check "the state" grep -q 'id="state" class="">ready, a single thread' "$dir/page"
    check "429 a second" [ "$(shown refused_per_second)" != 0.0 ]
    check "lines are drawn" grep -q 'id="use_line"[^>]* points="[0-9]' "$dir/page"
    kill -TERM "$load" # before the worker, so that this one has nothing to wait for
    wait "$load" 2>/dev/null
    load=''
    kill -TERM "$worker"
    wait "$worker"
    worker=''
}

# Is a request with a body answered? A large one comes in parts.
takes_body() # target
{
    head -c 300000 /dev/zero | curl -s -m 30 -o "$dir/answer" -w '%{http_code}' --data-binary @- \
        "http://127.0.0.1:$calls$1" >"$dir/status"
    [ "$(cat "$dir/status")" = 200 ]
}

stop_mhd()
{
    start_worker
    if command -v curl >/dev/null; then
        check "a body" takes_body /
        check "a body that needs no permit" takes_body /metrics
    fi
    stop_under_load
    check "200 and 429" [ "$(grep -c '^ *\(200\|429\) ' "$dir/load")" = 2 ]
    check "the balance" awk '/ requests, / { good = $1 > 0 && $1 == $3 } END { exit !good }' "$dir/worker"
}

program=worker_main
if [ "${1-}" = page ] && ! command -v chromium >/dev/null; then
    echo "skipped: chromium is not installed"
    exit 77
elif [ "${1-}" = mhd ]; then
    program=mhd
fi
${MAKE:-make} -s "$build/examples/http_worker/$program" "$build/examples/http_worker/load_main" || exit 1
mkdir -p "$dir"
: >"$dir/load"
case ${1-} in
page) look_at_page ;;
mhd) stop_mhd ;;
*)
    stop_worker 'a thread each' WORKER_USE_SINGLE_THREAD=false
    stop_worker 'a single thread' WORKER_USE_SINGLE_THREAD= WORKER_DEFAULT_USE_SINGLE_THREAD=true ;;
esac
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
