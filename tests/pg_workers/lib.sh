# SPDX-License-Identifier: MIT
# What the tests of examples/pg_workers share: a private server with the tables, processes, questions
# to the database. Read it with `.`; it needs a free name for its directory in $scene. Environment:
# BUILD; WORKER, another build of the worker.

build=${BUILD:-build} tests=tests/pg_workers MAKE=${MAKE:-make}
worker=${WORKER:-$build/examples/pg_workers/main} naive=$build/tests/pg_workers/naive proxy=$build/tests/pg_workers/proxy
passed=0 failed=0

if ! command -v pg_config >/dev/null || [ ! -e "$(pg_config --includedir)/libpq-fe.h" ]; then
    echo "skipped: libpq is not installed"
    exit 77
fi
$MAKE -s "$build/examples/pg_workers/main" "$naive" "$proxy" || exit 1

now() { # milliseconds
    date +%s%3N
}

# check CLAIM COMMAND...
check() {
    claim=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not true: $claim"
    fi
}

# Waits until the command succeeds, at most so many seconds.
eventually() {
    end=$(($(now) + $1 * 1000))
    shift
    until "$@"; do
        [ "$(now)" -lt $end ] || return 1
        sleep 0.1
    done
}

ask() { # SQL: the answer
    psql -qAtX -v ON_ERROR_STOP=1 -c "$1"
}
is() { # ANSWER SQL
    [ "$(ask "$2" 2>/dev/null)" = "$1" ]
}

# The server, and the environment of psql and of the workers.
scene=$build/pg_$scene.$$
begin() { # [SETTING...]
    trap tidy EXIT
    trap 'exit 130' INT TERM HUP
    PGPORT=$($tests/server.sh start "$scene" "$@") || exit $?
    PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres PGCONNECT_TIMEOUT=5
    export PGPORT PGHOST PGUSER PGDATABASE PGCONNECT_TIMEOUT
    psql -qX -v ON_ERROR_STOP=1 -f examples/pg_workers/schema.sql -f $tests/role.sql || exit 1
}
url() { # PORT
    echo "host=127.0.0.1 port=$1 user=worker dbname=postgres"
}
tidy() {
    status=$?
    for file in "$scene"/*.pid; do
        [ ! -e "$file" ] || kill -9 "$(cat "$file")" 2>/dev/null
    done
    wait 2>/dev/null
    $tests/server.sh stop "$scene"
    exit $status
}

# launch NAME COMMAND...: in the background, with its process in $scene/NAME.pid
launch() {
    name=$1
    shift
    "$@" >>"$scene/$name.log" 2>&1 &
    echo $! >"$scene/$name.pid"
}
pid() {
    cat "$scene/$1.pid"
}
# quit NAME: SIGTERM, and its exit status; 137 if it does not end
quit() {
    kill -TERM "$(pid "$1")"
    (
        sleep 30 &
        trap 'kill $!; exit' TERM
        wait $! && kill -9 "$(pid "$1")"
    ) >/dev/null 2>&1 &
    watchdog=$!
    wait "$(pid "$1")"
    set -- "$1" $?
    kill $watchdog 2>/dev/null
    rm "$scene/$1.pid"
    return "$2"
}
sum_up() {
    check "no sanitizer has anything to say" sh -c "! grep -h 'Sanitizer\|runtime error' '$scene'/*.log"
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
}
