#!/bin/sh
# SPDX-License-Identifier: MIT
# What one or two processes of examples/pg_workers promise, claim by claim, against a server of our own.
set -u
scene=features
. tests/pg_workers/lib.sh
NUM_WORKERS=2 MAX_CONCURRENT_JOBS=3 MAX_DB_CONNECTIONS=7 LEASE_MS=3000 POLL_MS=200
export NUM_WORKERS MAX_CONCURRENT_JOBS MAX_DB_CONNECTIONS LEASE_MS POLL_MS
begin

start_worker() { # NAME
    DATABASE_URL=$(url "${through:-$PGPORT}") launch "$1" "$worker"
}
is_eventually() { # ANSWER SQL
    eventually 20 is "$1" "$2"
}
fresh() {
    ask "TRUNCATE job RESTART IDENTITY; TRUNCATE effect; TRUNCATE permit"
}
running() { # N: so many run
    is_eventually "$1" "SELECT count(*) FROM job WHERE state = 'running'"
}

# ---- settings
refused() { # WORDS SETTING...: it does not begin, and says so
    words=$1
    shift
    env "$@" DATABASE_URL=nowhere "$worker" 2>"$scene/said"
    [ $? -eq 2 ] && grep -q "$words" "$scene/said"
}
check "too few connections are refused, and it says how many are needed" \
    refused "2 workers, 3 jobs at once and 2 .* need 7" MAX_DB_CONNECTIONS=6
check "what is no number is refused" refused "NUM_WORKERS=many is not a number" NUM_WORKERS=many
check "a limit cannot be lifted" refused "MAX_CONCURRENT_JOBS=unlimited" MAX_CONCURRENT_JOBS=unlimited
check "no worker is refused" refused "NUM_WORKERS=0 must be" NUM_WORKERS=0
DATABASE_URL="host=127.0.0.1 port=1 user=worker" launch nowhere "$worker"
check "a server that is not there: it says so" eventually 20 grep -q "pg_workers: connection.* failed" "$scene/nowhere.log"
check "and waits for it, until SIGTERM" quit nowhere
ask "CREATE SCHEMA elsewhere" && {
    echo "SET search_path = elsewhere;"
    cat examples/pg_workers/schema.sql
    echo "SELECT job_add('effect'); GRANT ALL ON ALL TABLES IN SCHEMA elsewhere TO worker; GRANT USAGE ON SCHEMA elsewhere TO worker"
} | psql -qAtX -v ON_ERROR_STOP=1 >/dev/null
DATABASE_URL="$(url "$PGPORT") options='-c search_path=elsewhere'" launch elsewhere "$worker"
check "options of the URL are for all its sessions" is_eventually 1 "SELECT count(*) FROM elsewhere.effect"
quit elsewhere

# ---- order, delay, uniqueness
fresh
ask "SELECT job_add('effect', priority => p) FROM (VALUES (3), (1), (2)) AS v(p);
     SELECT job_add('effect', delay => '1 s'), job_add('effect', unique_key => 'a'),
            job_add('effect', unique_key => 'a') IS NULL" | grep -q 't$'
check "a second job with a unique key is not added" [ $? -eq 0 ]
MAX_CONCURRENT_JOBS=1 start_worker w
check "jobs are done" is_eventually 5 "SELECT count(*) FROM job WHERE state = 'done'"
check "by priority" is "5 2 3 1" "SELECT string_agg(job::text, ' ' ORDER BY made_at) FROM effect WHERE job <> 4"
check "not before their time" is t "SELECT made_at >= run_at FROM effect JOIN job ON job = id WHERE id = 4"
check "a unique key may come again" is t "SELECT job_add('effect', unique_key => 'a') IS NOT NULL"
check "it ends on SIGTERM" quit w

# ---- wake-ups
fresh
POLL_MS=60000 start_worker w
is_eventually 1 "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_workers listener' AND query LIKE '%lost%'"
ask "SELECT job_add('effect')" >/dev/null
check "NOTIFY wakes it long before it looks" is_eventually 1 "SELECT count(*) FROM effect"
ask "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pg_workers listener'" >/dev/null
ask "SELECT job_add('effect')" >/dev/null
check "and also when that connection had been cut" is_eventually 2 "SELECT count(*) FROM effect"
quit w

# ---- failures
fresh
start_worker w
ask "SELECT job_add('fail', '1'), job_add('fail', '9', max_attempts => 2), job_add('unheard of', max_attempts => 1)" >/dev/null
check "a job that fails is tried again" is_eventually "done|2" "SELECT state, attempt FROM job WHERE id = 1"
check "a job that always fails is dead at its limit" \
    is_eventually "dead|2|attempt 2 of 9 that fail" "SELECT state, attempt, error FROM job WHERE id = 2"
check "a kind that nobody knows is a failure" \
    is_eventually "dead|nobody knows jobs of kind unheard of" "SELECT state, error FROM job WHERE id = 3"
check "what failed has left nothing" is 1 "SELECT count(*) FROM effect"
check "it waits longer after each failure, and not always as long" is t "
    SELECT bool_and(job_backoff(n) BETWEEN interval '200 ms' * 2 ^ (n - 1) AND interval '250 ms' * 2 ^ (n - 1))
           AND count(DISTINCT job_backoff(1)) > 1 FROM generate_series(1, 10) AS n"
quit w

# ---- texts
fresh
ask "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', repeat(chr(233), 300); END';
     CREATE TRIGGER refuse BEFORE INSERT ON effect FOR EACH ROW EXECUTE FUNCTION refuse();
     SELECT job_add('effect', max_attempts => 1) FROM generate_series(1, 3)" >/dev/null
start_worker w
check "an error text that is cut within a letter is written down, too" \
    is_eventually 3 "SELECT count(*) FROM job WHERE state = 'dead' AND length(error) > 90"
ask "DROP TRIGGER refuse ON effect; SELECT job_add('effect')" >/dev/null
check "and has cost no permit" is_eventually 1 "SELECT count(*) FROM effect"
ask "SELECT job_add('quote'' \"{},' || E'\\\\', max_attempts => 1)" >/dev/null
check "a kind may have any letters" is_eventually 1 "SELECT count(*) FROM job WHERE error = 'nobody knows jobs of kind ' || kind"
check "but not more bytes than there is room for" is '' "SELECT job_add(repeat(chr(233), 60))"
quit w

# ---- a limit of the cluster (faults.sh looks at all of them more closely)
fresh
ask "INSERT INTO permit SELECT 'one', 1; SELECT job_add('hold', '300', priority => -1, pool => 'one') FROM generate_series(1, 4);
     SELECT job_add('effect', '300') FROM generate_series(1, 6)" >/dev/null
start_worker w
start_worker v
check "jobs of a full pool let others pass, and are done in the end" \
    is_eventually 10 "SELECT count(*) FROM job WHERE state = 'done'"
check "of a pool of one, one runs in the cluster" is 3 "SELECT count(*) FROM
    (SELECT made_at - lag(made_at) OVER (ORDER BY made_at) AS gap FROM effect JOIN job ON job = id WHERE pool = 'one') AS gaps
    WHERE gap >= interval '300 ms'"
check "no attempt was in vain" is 1 "SELECT max(attempt) FROM job"
quit w
quit v
fresh
POLL_MS=60000 start_worker w
ask "INSERT INTO permit SELECT 'one', 1; SELECT job_add('effect', pool => 'one') FROM generate_series(1, 5)" >/dev/null
check "a permit that is freed is taken again without a look" is_eventually 5 "SELECT count(*) FROM effect"
quit w

# ---- the end
start_worker w
start_worker v
ask "SELECT job_add('effect', '600') FROM generate_series(1, 6)" >/dev/null
running 6
kill -TERM "$(pid v)"
check "SIGTERM lets jobs end" quit w
check "in both processes" wait "$(pid v)"
rm "$scene/v.pid"
check "all six ended at their first attempt" is "6|1" "SELECT count(*), max(job.attempt) FROM job JOIN effect ON job = id WHERE payload = '600'"
fresh
ask "SELECT job_add('effect', '60000') FROM generate_series(1, 3)" >/dev/null
SHUTDOWN_MS=100 start_worker w
running 3
check "what takes too long is broken off" quit w
check "and put back as if it had not begun" is "3|0|0" \
    "SELECT count(*) FILTER (WHERE state = 'ready'), max(attempt), (SELECT count(*) FROM effect) FROM job"

# ---- leases
fresh
ask "SELECT job_add('effect', '4500')" >/dev/null
start_worker w
running 1
check "a lease is renewed while the job runs" is_eventually "1|1" "SELECT attempt, (SELECT count(*) FROM effect) FROM job WHERE state = 'done'"
fresh
ask "SELECT job_add('effect', '60000')" >/dev/null
running 1
kill -9 "$(pid w)"
wait "$(pid w)" 2>/dev/null
rm "$scene/w.pid"
start_worker v
check "another one rescues the job of a process that is gone" is_eventually "2|the lease ran out" \
    "SELECT attempt, left(error, 17) FROM job WHERE state = 'running'"
quit v
fresh
ask "INSERT INTO job (kind, state, attempt, worker, place, lease_until)
     SELECT 'effect', 'running', 1, 'gone', n, now() FROM generate_series(1, 150) AS n"
POLL_MS=60000 start_worker v
check "one look rescues all jobs that are lost" is_eventually 0 "SELECT count(*) FROM job WHERE worker = 'gone'"
quit v
fresh
ask "CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3); RETURN NULL; END';
     CREATE TRIGGER take_time AFTER UPDATE ON job FOR EACH ROW WHEN (NEW.state = 'done' AND NEW.attempt = 1) EXECUTE FUNCTION take_time();
     SELECT job_add('effect')" >/dev/null
LEASE_MS=6000 start_worker w
is_eventually 1 "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'UPDATE job SET state = ''done%'"
kill -STOP "$(pid w)"
check "a process is stopped between the end of its job and the COMMIT" \
    is_eventually 1 "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
start_worker v
check "and another one rescues that job all the same" is_eventually "done|2" "SELECT state, attempt FROM job"
kill -CONT "$(pid w)"
check "which has ended once" is "2|1" "SELECT max(attempt), count(*) FROM effect"
ask "DROP TRIGGER take_time ON job"
quit w
quit v

# ---- a table that is locked: what nobody waits for any more, the server gives up, too
fresh
ask "SELECT job_add('effect', '60000') FROM generate_series(1, 4)" >/dev/null
LEASE_MS=1000 SHUTDOWN_MS=100 start_worker w
running 3
psql -qX -c BEGIN -c "LOCK TABLE job" -c "SELECT pg_sleep(8)" >/dev/null &
locker=$!
sleep 7
sessions=$(ask "SELECT count(*) FROM pg_stat_activity WHERE usename = 'worker'")
wait $locker
check "while the table is locked it has not twice its connections ($sessions of 7)" [ "$sessions" -lt 14 ]
check "and goes on afterwards" is_eventually 3 "SELECT count(*) FROM job WHERE state = 'running' AND lease_until > now()"
quit w

# ---- a network that falls silent: the process stops its jobs before others begin them
launch proxy "$proxy" "$PGPORT"
eventually 5 test -s "$scene/proxy.log"
through=$(cat "$scene/proxy.log")
fresh
ask "SELECT job_add('hold', '60000')" >/dev/null
SHUTDOWN_MS=500 LEASE_MS=60000 start_worker silent
running 1
kill -USR1 "$(pid proxy)"
check "SIGTERM ends it while the network is silent, however long a lease is" quit silent
kill -USR2 "$(pid proxy)"
fresh
ask "SELECT job_add('effect', '60000')" >/dev/null
METRICS_PORT=$("$proxy" free) # of the process that will be cut off
export METRICS_PORT
start_worker w
running 1
kill -USR1 "$(pid proxy)"
page() {
    printf 'GET /metrics HTTP/1.0\r\n\r\n' | "$proxy" ask "$METRICS_PORT"
}
no_permit_that_runs() {
    page | grep -q '^bulkhead_in_use{name="jobs"} 0$'
}
check "a process that is cut off stops its jobs by itself" eventually 20 no_permit_that_runs
through=''
METRICS_PORT='' start_worker v
check "and another one begins them" is_eventually 2 "SELECT attempt FROM job WHERE state = 'running'"
kill -USR2 "$(pid proxy)"
SHUTDOWN_MS=100 quit v

# ---- figures
page >"$scene/page"
for metric in semaphore_permits_available semaphore_permits_in_use worker_jobs_acquired_total \
    worker_idle_seconds_total db_connections_active db_connections_idle 'bulkhead_wait_seconds_count{name="connections"}' \
    job_acquisition_seconds_count job_processing_seconds_count job_queue_wait_seconds_count; do
    check "/metrics has $metric" grep -q "^$metric" "$scene/page"
done
if command -v promtool >/dev/null; then
    sed '1,/^.$/d' "$scene/page" | promtool check metrics >"$scene/lint" 2>&1
    check "promtool finds nothing wrong in it: $(head -n 3 "$scene/lint")" [ ! -s "$scene/lint" ]
fi

idle_seconds() {
    page | sed -n 's/^worker_idle_seconds_total{name="jobs"} //p'
}
# ---- idle: at most a question for each look, and next to no CPU
fresh
POLL_MS=1000 METRICS_PORT='' start_worker idle
sleep 1 # it is idle from then on
ask "ALTER ROLE worker SET log_statement = 'all'"
quit w # so the log has only what follows of the idle one
kill -KILL "$(pid idle)" && wait "$(pid idle)" 2>/dev/null
POLL_MS=1000 start_worker idle
sleep 2
log=$(cat "$scene/where")/server.log
since=$(now) before=$(grep -c 'LOG:  execute\|LOG:  statement' "$log") ticks=$(awk '{ print $14 + $15 }' "/proc/$(pid idle)/stat")
sleep 5
after=$(grep -c 'LOG:  execute\|LOG:  statement' "$log") since=$(($(now) - since)) ticks=$(($(awk '{ print $14 + $15 }' "/proc/$(pid idle)/stat") - ticks))
check "an idle process asks nothing but a look per poll ($((after - before)) in $since ms)" [ $((after - before)) -le $((since / 750 + 1)) ]
check "but it does look" [ $((after - before)) -ge 2 ]
check "it uses less than 1 % of a CPU ($ticks ticks in $since ms)" [ $((ticks * 100000)) -lt $((since * $(getconf CLK_TCK))) ]

idle_s=$(idle_seconds)
check "its two workers say that they are idle ($idle_s s)" [ "${idle_s:-0}" -ge 5 ]

# ---- the server is down
ask "SELECT job_add('effect', '60000'), job_add('hold', '60000')" >/dev/null
SHUTDOWN_MS=500 METRICS_PORT='' start_worker busy
running 2
$tests/server.sh restart "$scene" stopped
check "SIGTERM ends it while the server is down" quit idle
check "and also if jobs run" quit busy
sum_up || { tail -n 3 "$scene"/*.log; false; }
