/* SPDX-License-Identifier: MIT
 *
 * The statements: see statements.h.
 *
 * Locks are taken in one order, the job before its permit, and by SKIP LOCKED wherever there may be
 * several rows: so nobody waits for another's claim, and there is no circle.
 *
 * Whoever ends a job, or renews its lease, names its fence: id, attempt and worker. A worker that has
 * lost its lease, and does not know it yet, changes no row.
 */
#include "statements.h"

#include <stddef.h>

#define FENCE "id = $1 AND attempt = $2 AND worker = $3 AND state = 'running'"
#define LET_GO "worker = NULL, place = NULL, lease_until = NULL"

const statement statements[] = {
    /* As many jobs as there are places: $1 the places, $2 the worker, $3 the lease. Jobs of a pool
     * get a permit in the same statement, or stay. */
    {"claim",
     "WITH candidate AS MATERIALIZED ("
     " SELECT id, pool, priority, run_at FROM job"
     " WHERE state = 'ready' AND run_at <= now()"
     " AND (pool IS NULL OR pool IN (SELECT p.pool FROM permit p WHERE p.job IS NULL))"
     " ORDER BY priority, run_at, id LIMIT cardinality($1::int[]) FOR UPDATE SKIP LOCKED"
     "), seat AS MATERIALIZED ("
     " SELECT free.pool, free.slot FROM"
     " (SELECT pool, count(*) AS wanted FROM candidate WHERE pool IS NOT NULL GROUP BY pool) w"
     " CROSS JOIN LATERAL (SELECT p.pool, p.slot FROM permit p WHERE p.pool = w.pool"
     " AND p.job IS NULL ORDER BY p.slot LIMIT w.wanted FOR UPDATE SKIP LOCKED) free"
     "), chosen AS MATERIALIZED ("
     " SELECT c.id, s.pool, s.slot, row_number() OVER () AS nth FROM"
     " (SELECT *, row_number() OVER (PARTITION BY pool ORDER BY priority, run_at, id) AS n"
     "  FROM candidate) c LEFT JOIN"
     " (SELECT *, row_number() OVER (PARTITION BY pool ORDER BY slot) AS n FROM seat) s"
     " ON s.pool = c.pool AND s.n = c.n WHERE c.pool IS NULL OR s.slot IS NOT NULL"
     "), taken AS ("
     " UPDATE permit p SET job = chosen.id FROM chosen"
     " WHERE p.pool = chosen.pool AND p.slot = chosen.slot"
     ") UPDATE job SET state = 'running', attempt = attempt + 1, worker = $2,"
     " place = ($1::int[])[chosen.nth], lease_until = now() + $3::interval"
     " FROM chosen WHERE job.id = chosen.id RETURNING job.place, job.id, job.attempt, job.kind,"
     " job.payload, job.pool, (extract(epoch FROM now() - job.run_at) * 1e9)::bigint"},

    /* The end, in the transaction of the job's effects. One row, or the lease was lost. */
    {"done", "UPDATE job SET state = 'done', finished_at = now(), " LET_GO " WHERE " FENCE},

    /* The same for a job with a permit of the cluster. */
    {"done_in_pool",
     "WITH ended AS (UPDATE job SET state = 'done', finished_at = now(), " LET_GO " WHERE " FENCE
     " RETURNING id) UPDATE permit SET job = NULL FROM ended WHERE permit.job = ended.id"},

    /* An attempt has failed: $4 why, $5 whether it does not count. */
    {"give_back",
     "WITH ended AS (UPDATE job SET " LET_GO ", error = coalesce($4, error),"
     " state = CASE WHEN attempt >= max_attempts AND NOT $5::bool THEN 'dead' ELSE 'ready' END,"
     " finished_at = CASE WHEN attempt >= max_attempts AND NOT $5::bool THEN now() END,"
     " run_at = CASE WHEN $5::bool THEN run_at ELSE now() + job_backoff(attempt) END,"
     " attempt = attempt - $5::bool::int WHERE " FENCE
     " RETURNING id) , freed AS (UPDATE permit SET job = NULL FROM ended"
     " WHERE permit.job = ended.id) SELECT count(*) FROM ended"},

    /* The leases of this process: $1 ids, $2 attempts, $3 workers, $4 the lease. A row that is
     * locked is just being ended. */
    {"renew",
     "WITH mine AS MATERIALIZED (SELECT job.id FROM unnest($1::bigint[], $2::int[], $3::text[])"
     " AS lease(id, attempt, worker) JOIN job ON job.id = lease.id"
     " AND job.attempt = lease.attempt AND job.worker = lease.worker AND job.state = 'running'"
     " FOR UPDATE OF job SKIP LOCKED) UPDATE job SET lease_until = now() + $4::interval"
     " FROM mine WHERE job.id = mine.id RETURNING job.id, job.attempt"},

    /* Rescues jobs whose lease has run out, whoever had it, and tells whether there is something
     * to do. */
    {"look", "WITH lost AS MATERIALIZED (SELECT id FROM job WHERE state = 'running'"
             " AND lease_until < now() ORDER BY id FOR UPDATE SKIP LOCKED"
             "), back AS (UPDATE job SET " LET_GO ", error = 'the lease ran out: ' || job.worker,"
             " state = CASE WHEN attempt >= max_attempts THEN 'dead' ELSE 'ready' END,"
             " finished_at = CASE WHEN attempt >= max_attempts THEN now() END, run_at = now()"
             " FROM lost WHERE job.id = lost.id RETURNING job.id"
             "), freed AS (UPDATE permit SET job = NULL FROM back WHERE permit.job = back.id)"
             " SELECT (SELECT count(*) FROM back), EXISTS (SELECT FROM job WHERE state = 'ready'"
             " AND run_at <= now()"
             " AND (pool IS NULL OR pool IN (SELECT p.pool FROM permit p WHERE p.job IS NULL)))"},

    {NULL, NULL}};
