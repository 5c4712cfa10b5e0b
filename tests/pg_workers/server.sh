#!/bin/sh
# SPDX-License-Identifier: MIT
# A PostgreSQL server of our own, for tests: on a loopback port that the system picks, with its data in
# DIRECTORY, as an unprivileged user.
#
#   server.sh start DIRECTORY [SETTING...]    prints the port; exit status 77: PostgreSQL is missing
#   server.sh stop DIRECTORY                  and removes the directory
#   server.sh restart DIRECTORY fast|immediate|stopped     "stopped" leaves it so
#
# It forgets what it has not written if the machine (not the server) crashes: fsync is off.
# Environment: BUILD, where tests/pg_workers/proxy is.
set -u
what=$1 home=$2
shift 2
bin=$(command -v initdb >/dev/null && dirname "$(readlink -f "$(command -v initdb)")")
[ -n "$bin" ] || bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t / -k 5 -n | tail -n 1)
if [ ! -x "${bin:-/nonexistent}/initdb" ] || ! command -v psql >/dev/null; then
    echo "skipped: PostgreSQL is not installed" >&2
    exit 77
fi

# The server refuses to run as root.
as() {
    if [ "$(id -u)" = 0 ]; then
        runuser -u postgres -- "$@"
    else
        "$@"
    fi
}

case $what in
start)
    proxy=$(readlink -f "${BUILD:-build}")/tests/pg_workers/proxy
    mkdir -p "$home"
    data=$home
    if [ "$(id -u)" = 0 ]; then
        id postgres >/dev/null 2>&1 || { echo "skipped: there is no user postgres" >&2; exit 77; }
        chown postgres "$home"
        # Somebody else may not get into our directories.
        as test -w "$(readlink -f "$home")" || { data=$(mktemp -d) && chown postgres "$data"; }
    fi
    data=$(readlink -f "$data")/data
    printf '%s' "$data" >"$home/where"
    cd / || exit 1
    as "$bin/initdb" -D "$data" -A trust -U postgres -E UTF8 --locale=C -N --no-instructions >"${data%/data}/initdb.log" 2>&1 ||
        { cat "${data%/data}/initdb.log" >&2; exit 1; }
    cat >>"$data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
shared_buffers = 64MB
max_connections = 60
END
    for setting in "$@"; do
        echo "$setting" >>"$data/postgresql.conf"
    done
    for _ in 1 2 3 4 5; do # the port may be taken before the server has it
        port=$("$proxy" free) || exit 1
        sed -i '/^port = /d' "$data/postgresql.conf"
        echo "port = $port" >>"$data/postgresql.conf"
        if as "$bin/pg_ctl" -D "$data" -l "$data/server.log" -w -t 30 start >/dev/null 2>&1; then
            echo "$port"
            exit 0
        fi
    done
    cat "$data/server.log" >&2
    exit 1
    ;;
stop)
    data=$(cat "$home/where") || exit 0
    cd / || exit 1
    as "$bin/pg_ctl" -D "$data" -m immediate -t 30 stop >/dev/null 2>&1
    rm -rf "${data:?}"
    cd "$OLDPWD" && rm -rf "${home:?}"
    ;;
restart)
    data=$(cat "$home/where") || exit 1
    cd / || exit 1
    [ "$1" != stopped ] || { as "$bin/pg_ctl" -D "$data" -m fast -w -t 30 stop >/dev/null 2>&1; exit $?; }
    as "$bin/pg_ctl" -D "$data" -l "$data/server.log" -m "$1" -w -t 30 restart >/dev/null 2>&1
    ;;
esac
