-- SPDX-License-Identifier: MIT
-- What must be true when all is over: the database says so by constraints that it accepts, and by
-- queries that must come out empty. An error for each claim that is not true.
\set VERBOSITY terse
\set ON_ERROR_STOP off

-- one effect each
ALTER TABLE effect ADD CONSTRAINT one_effect_for_each_job UNIQUE (job);
-- a job is leased to one at a time
ALTER TABLE lease ADD CONSTRAINT one_lease_of_a_job EXCLUDE USING gist (job WITH =, during WITH &&);
-- never more leases than permits: each has a place of its own, and there are so many places
ALTER TABLE lease ADD CONSTRAINT one_lease_for_a_permit
    EXCLUDE USING gist (worker WITH =, place WITH =, during WITH &&);
ALTER TABLE lease ADD CONSTRAINT no_more_places_than_permits CHECK (place BETWEEN 0 AND :permits - 1);
-- never more than so many of a pool in the cluster: each has a slot of its own
ALTER TABLE lease ADD CONSTRAINT one_lease_for_a_slot
    EXCLUDE USING gist (pool WITH =, slot WITH =, during WITH &&) WHERE (pool IS NOT NULL);
ALTER TABLE lease ADD CONSTRAINT no_job_of_a_pool_without_slot CHECK ((pool IS NULL) = (slot IS NULL));

CREATE FUNCTION must_be_none(claim text, wrong bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF wrong <> 0 THEN
        RAISE EXCEPTION '%: not true of % rows', claim, wrong;
    END IF;
END $$;
\t on
\o /dev/null
SELECT must_be_none('every job has ended', count(*)) FROM job WHERE state NOT IN ('done', 'dead');
SELECT must_be_none('what always fails is dead, and nothing else', count(*)) FROM job
    WHERE (state = 'dead') <> (kind = 'fail' AND payload = '99');
SELECT must_be_none('who is done has left an effect', count(*)) FROM job
    WHERE state = 'done' AND NOT EXISTS (SELECT FROM effect WHERE effect.job = job.id);
SELECT must_be_none('who is not done has left none', count(*)) FROM effect
    WHERE NOT EXISTS (SELECT FROM job WHERE job.id = effect.job AND state = 'done');
SELECT must_be_none('the effect is of the last attempt', count(*)) FROM job JOIN effect
    ON effect.job = job.id WHERE effect.attempt <> job.attempt;
SELECT must_be_none('no attempt is beyond the limit', count(*)) FROM job WHERE attempt > max_attempts;
SELECT must_be_none('all permits are back', count(*)) FROM permit WHERE job IS NOT NULL;
-- The most at any moment, counted from the beginnings, and not from the slots.
SELECT must_be_none('never more than 5 of pool x', count(*)) FROM lease a WHERE pool = 'x'
    AND 5 < (SELECT count(*) FROM lease b WHERE b.pool = 'x' AND b.during @> lower(a.during));
SELECT must_be_none('never more leases than permits', count(*)) FROM lease a
    WHERE :permits < (SELECT count(*) FROM lease b WHERE b.worker = a.worker AND b.during @> lower(a.during));
