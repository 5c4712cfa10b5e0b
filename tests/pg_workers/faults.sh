#!/bin/sh
# SPDX-License-Identifier: MIT
# Three processes of job workers on one PostgreSQL, and all that may happen to them; then the
# database is asked whether every job has ended once (verdict.sql).
#
#   faults.sh           10,000 jobs, with the workers of examples/pg_workers
#   faults.sh naive     fewer jobs and fewer faults, with the worker of naive.c: must be found out
#
# Prints the seed of what it does at random. Environment: SEED, KILL_S (20), BUILD.
set -u
who=${1-} seed=${SEED:-$(($(date +%s) % 100000))}
scene=faults$who
. tests/pg_workers/lib.sh
random=$seed
roll() { # N: sets rolled, from 0 to N - 1
    random=$(((random * 1103515245 + 12345) % 2147483648))
    rolled=$((random / 65536 % $1))
}

NUM_WORKERS=2 MAX_CONCURRENT_JOBS=5 MAX_DB_CONNECTIONS=9
LEASE_MS=1500 POLL_MS=300 JOB_LIMIT_MS=8000 SHUTDOWN_MS=5000
export NUM_WORKERS MAX_CONCURRENT_JOBS MAX_DB_CONNECTIONS LEASE_MS POLL_MS JOB_LIMIT_MS SHUTDOWN_MS
echo "seed $seed"

jobs=9000 limited=800 kill_s=${KILL_S:-20} program=$worker
[ -z "$who" ] || { jobs=1500 limited=200 kill_s=2 program=$naive; }
begin
psql -qX -v ON_ERROR_STOP=1 -f $tests/audit.sql || exit 1
launch proxy "$proxy" "$PGPORT"
eventually 5 test -s "$scene/proxy.log" || exit 1
through=$(head -n 1 "$scene/proxy.log")

# What is to be done: most take 0 to 100 ms, some fail at first, some always, some hold a row.
ask "SET work_mem = '64MB'; SELECT setseed($seed / 100000.0);
INSERT INTO permit SELECT 'x', generate_series(1, 5);
INSERT INTO job (kind, payload, priority, run_at, pool, max_attempts)
SELECT kind, CASE kind WHEN 'fail' THEN '2' ELSE (random() * 100)::int::text END, (random() * 3)::int,
       now() + random() * interval '5 s', pool, 60
FROM (SELECT 'effect' AS kind, NULL AS pool FROM generate_series(1, $jobs)
      UNION ALL SELECT 'effect', 'x' FROM generate_series(1, $limited)
      UNION ALL SELECT 'hold', NULL FROM generate_series(1, 100)
      UNION ALL SELECT 'fail', NULL FROM generate_series(1, 80)) AS all_jobs ORDER BY random();
INSERT INTO job (kind, payload, max_attempts) SELECT 'fail', '99', 2 FROM generate_series(1, 20)" >/dev/null || exit 1
echo "$(ask "SELECT count(*) FROM job") jobs"

spawn() { # NUMBER: the third sees the server through the proxy
    port=$PGPORT
    [ "$1" != 3 ] || port=$through
    DATABASE_URL=$(url $port) launch "worker$1" "$program"
}
left() {
    echo "$(date +%T) $1; $(ask "SELECT count(*) FROM job WHERE state IN ('ready', 'running')") jobs left"
}
for i in 1 2 3; do spawn $i; done

left "kill -9 of one of three, every 300 ms, for $kill_s s"
end=$(($(now) + kill_s * 1000)) kills=0
while [ "$(now)" -lt $end ]; do
    sleep 0.3
    roll 3
    victim=$((rolled + 1))
    kill -9 "$(pid worker$victim)"
    wait "$(pid worker$victim)" 2>/dev/null
    spawn $victim
    kills=$((kills + 1))
done

stop_past_the_lease() {
    sleep 1 # whoever has just been killed has jobs again
    roll 3
    victims="$(pid worker$((rolled + 1))) $(pid worker$(((rolled + 1) % 3 + 1)))"
    left "SIGSTOP of two processes for two leases"
    kill -STOP $victims
    sleep 3
    kill -CONT $victims
}
freeze_the_network() {
    left "the network of process 3 falls silent for two leases"
    kill -USR1 "$(pid proxy)"
    sleep 3
    kill -USR2 "$(pid proxy)"
}
terminate_sessions() {
    left "sessions are terminated: listeners, leases, workers, jobs"
    for role in listener leases worker job listener job leases worker; do
        ask "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = 'pg_workers $role'" >/dev/null
        roll 4
        sleep 0.$((rolled + 1))
    done
}
restart() {
    left "the server restarts, $1"
    $tests/server.sh restart "$scene" "$1" || exit 1
    sleep 1
}
exhaust_connections() {
    left "no connection is left for 2 s"
    ask "ALTER ROLE worker CONNECTION LIMIT 3; SELECT count(pg_terminate_backend(pid))
         FROM pg_stat_activity WHERE usename = 'worker'" >/dev/null
    sleep 2
    ask "ALTER ROLE worker CONNECTION LIMIT -1"
}
stop_past_the_lease
if [ -z "$who" ]; then
    freeze_the_network
    terminate_sessions
    restart fast
    exhaust_connections
    restart immediate
    left "no more faults"
    check "faults met jobs" [ "$(ask "SELECT count(*) FROM job WHERE state = 'ready'")" -gt 0 ]
fi

all_over() {
    is 0 "SELECT count(*) FROM job WHERE state IN ('ready', 'running')"
}
if [ -n "$who" ]; then
    eventually 5 all_over
else
    check "all jobs end" eventually 180 all_over
    for i in 1 2 3; do
        check "process $i ends on SIGTERM" quit worker$i
    done
fi

psql -qX -v permits=$MAX_CONCURRENT_JOBS -f $tests/verdict.sql >"$scene/verdict" 2>&1
sed 's/^psql:[^ ]* //' "$scene/verdict"
echo "$kills processes killed; $(ask "SELECT count(*) FROM lease") leases, $(ask "
    SELECT count(*) FROM job WHERE error LIKE 'the lease ran out%'") jobs rescued, $(ask "
    SELECT count(*) FROM job WHERE attempt > 1") tried again, at most $(ask "SELECT max(attempt) FROM job") times"
if [ -n "$who" ]; then
    check "a naive worker is found out" grep -q one_effect_for_each_job "$scene/verdict"
else
    check "the database accepts what happened" sh -c "! grep -q ERROR '$scene/verdict'"
    lost=$(sed -n 's/.* \([0-9]*\) lost,.*/\1/p' "$scene"/worker*.log | awk '{ n += $1 } END { print n + 0 }')
    echo "$lost ends were refused because the lease had been lost"
    check "zombies were refused" [ "$lost" -gt 0 ]
    check "leases were lost" [ "$(ask "SELECT count(*) FROM job WHERE error LIKE 'the lease ran out%'")" -gt 0 ]
fi
sum_up || { tail -n 5 "$scene"/worker*.log; false; }
