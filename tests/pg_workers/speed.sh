#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs per second of three processes of examples/pg_workers, with jobs that do nothing, beside the
# bare mechanism: pgbench, with as many clients as the processes have permits together, that claims a
# job and ends it by the very same statements. In turns, on one server, on tables as new. Prints the
# median of the ratios; fails below 80 %. It fails by rounds only in which others had less than a tenth
# of the CPUs: a hog takes more from many threads than from the one or two of pgbench. If there are too
# few such rounds of three times as many, it is skipped. Environment: NUM_WORKERS (1: a claim takes no
# longer than a job here), MAX_CONCURRENT_JOBS (5).
#
#   speed.sh [ROUNDS [JOBS]]       5 rounds of 10000 jobs
set -u
rounds=${1:-5} jobs=${2:-10000}
scene=speed
. tests/pg_workers/lib.sh
command -v pgbench >/dev/null || { echo "skipped: pgbench is not installed"; exit 77; }
NUM_WORKERS=${NUM_WORKERS:-1} MAX_CONCURRENT_JOBS=${MAX_CONCURRENT_JOBS:-5} MAX_DB_CONNECTIONS=15
export NUM_WORKERS MAX_CONCURRENT_JOBS MAX_DB_CONNECTIONS
begin "max_connections = 100"
clients=$((3 * MAX_CONCURRENT_JOBS))

# The script of pgbench, from the statements of the workers. A claim of one, or of a batch.
statement() { # NAME
    "$worker" statements | sed -n "s/^$1	//p"
}
bench_script() {
    echo "$(statement claim | sed "s/\$1::int\[\]/'{0}'::int[]/g; s/\$2/'pgbench ' || :client_id/; s/\$3/'10 s'/") \\gset"
    echo "$(statement "done" | sed "s/\$1/:id/; s/\$2/:attempt/; s/\$3/'pgbench ' || :client_id/");"
}
bench_script >"$scene/script.sql"

add_jobs() { # N: prints when they were there
    psql -qAtX -c "TRUNCATE job RESTART IDENTITY" \
        -c "INSERT INTO job (kind) SELECT 'empty' FROM generate_series(1, $1)" -c "SELECT clock_timestamp()"
}
ours() {
    there=$(add_jobs "$jobs")
    eventually 60 is "$jobs" "SELECT count(*) FROM job WHERE state = 'done'" || return 1
    ask "SELECT round(count(*) / extract(epoch FROM max(finished_at) - '$there')) FROM job"
}
theirs() {
    add_jobs $((jobs + clients)) >/dev/null
    pgbench -n -M prepared -U worker -c $clients -j 2 -t $((jobs / clients)) -f "$scene/script.sql" \
        >"$scene/pgbench.log" 2>&1 || { cat "$scene/pgbench.log" >&2; return 1; }
    sed -n 's/^tps = \([0-9]*\).*/\1/p' "$scene/pgbench.log"
}

# Ticks since the start: of all CPUs, busy or not; of those, the ones that neither this test nor its
# server has used. What has ended counts for who has waited for it.
postmaster=$(head -n 1 "$(cat "$scene/where")/postmaster.pid")
ticks() {
    cat /proc/stat /proc/[0-9]*/stat 2>/dev/null | awk -v shell=$$ -v server="$postmaster" '
        $1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; others = all - $5 - $6 }
        $1 == shell || $1 == server { others -= $14 + $15 + $16 + $17 }
        $4 == server { others -= $14 + $15 }
        END { print all, others }'
}
median() { # FILE
    sort -n "$1" | awk '{ r[NR] = $1 } END { print r[int((NR + 1) / 2)] }'
}

round=0 quiet=0 median=0
until [ $round -ge "$rounds" ] && { [ "$median" -ge 80 ] || [ $quiet -ge "$rounds" ] || [ $round -ge $((3 * rounds)) ]; }; do
    before=$(ticks)
    ask "TRUNCATE job" # what pgbench has left: the workers shall begin with all others
    for i in 1 2 3; do
        DATABASE_URL=$(url "$PGPORT") launch worker$i "$worker"
    done
    eventually 10 is $((3 * NUM_WORKERS + 6)) "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pg_workers%'" ||
        { echo "the workers do not connect"; cat "$scene"/worker*.log; exit 1; }
    a=$(ours) || exit 1
    for i in 1 2 3; do quit worker$i; done
    b=$(theirs) || exit 1
    others=$(echo "$before $(ticks)" | awk '{ printf "%d", ($4 - $2) * 100 / ($3 - $1) }')
    echo "$a jobs/s, pgbench $b jobs/s: $((a * 100 / b)) % (others had $others % of the CPUs)"
    echo $((a * 100 / b)) >>"$scene/ratios"
    round=$((round + 1))
    if [ "$others" -lt 10 ]; then
        quiet=$((quiet + 1))
        echo $((a * 100 / b)) >>"$scene/quiet"
    fi
    median=$(median "$scene/ratios")
done
if [ "$median" -lt 80 ]; then
    [ $quiet -ge "$rounds" ] || { echo "skipped: the machine has other work"; exit 77; }
    median=$(median "$scene/quiet")
fi
echo "$median % of the bare mechanism"
check "at least 80 % of the bare mechanism" [ "$median" -ge 80 ]
sum_up
