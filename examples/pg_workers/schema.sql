-- SPDX-License-Identifier: MIT
-- The tables of the job workers. Load them once:  psql -v ON_ERROR_STOP=1 -f schema.sql
-- All times are the server's, so no two clocks are ever compared.

CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (octet_length(kind) < 64),        -- what is done: see kinds.c
    payload text NOT NULL DEFAULT '' CHECK (octet_length(payload) < 1000),
    priority integer NOT NULL DEFAULT 0,                       -- lower ones first
    pool text CHECK (length(pool) < 64),                       -- a limit of the cluster: see permit
    unique_key text,                                           -- one such job at a time
    state text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'running', 'done', 'dead')),
    run_at timestamptz NOT NULL DEFAULT now(),                 -- not before
    attempt integer NOT NULL DEFAULT 0,                        -- the last one that began
    max_attempts integer NOT NULL DEFAULT 5,
    worker text CHECK (length(worker) < 100),                  -- who has it, while it runs;
    place integer,                                             -- as which of its permits;
    lease_until timestamptz,                                   -- and until when
    error text,                                                -- of the last attempt that failed
    finished_at timestamptz,
    CHECK (attempt BETWEEN 0 AND max_attempts),
    CHECK ((state = 'running') = (worker IS NOT NULL AND place IS NOT NULL AND lease_until IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);

-- lease_until stands in no index, so that renewing a lease changes none.
CREATE INDEX job_ready ON job (priority, run_at, id) WHERE state = 'ready';
CREATE INDEX job_running ON job (id) WHERE state = 'running';
CREATE UNIQUE INDEX job_unique ON job (unique_key)
    WHERE unique_key IS NOT NULL AND state IN ('ready', 'running');

-- A permit of a limit that all processes share: a row, and the job that has it. So a permit cannot be
-- given back twice, and it is lost with nobody: whoever ends the job frees it, in the same transaction.
CREATE TABLE permit (
    pool text NOT NULL,
    slot integer NOT NULL,
    job bigint UNIQUE,
    PRIMARY KEY (pool, slot)
) WITH (fillfactor = 50);

-- What jobs of the kind "effect" leave behind. One row for each job, or the database objects.
CREATE TABLE effect (
    job bigint PRIMARY KEY,
    attempt integer NOT NULL,
    worker text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

-- How long until the next attempt: 0.2 s, 0.4 s and so on up to 5 minutes, and up to a quarter more.
CREATE FUNCTION job_backoff(attempt integer) RETURNS interval LANGUAGE sql VOLATILE AS $$
    SELECT least(interval '200 ms' * 2 ^ least(attempt - 1, 20), interval '5 minutes')
           * (1 + random() / 4)
$$;

-- Adds a job; NULL if there is one with that unique_key already.
CREATE FUNCTION job_add(kind text, payload text DEFAULT '', priority integer DEFAULT 0,
                        delay interval DEFAULT '0', pool text DEFAULT NULL,
                        unique_key text DEFAULT NULL, max_attempts integer DEFAULT 5)
RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO job (kind, payload, priority, run_at, pool, unique_key, max_attempts)
    VALUES (kind, payload, priority, now() + delay, pool, unique_key, max_attempts)
    ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND state IN ('ready', 'running') DO NOTHING
    RETURNING id
$$;

-- One wake-up for a statement, however many jobs it adds: NOTIFY takes a lock that all share.
CREATE FUNCTION job_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY job;
    RETURN NULL;
END $$;
CREATE TRIGGER job_added AFTER INSERT ON job FOR EACH STATEMENT EXECUTE FUNCTION job_notify();
