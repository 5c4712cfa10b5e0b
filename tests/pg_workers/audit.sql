-- SPDX-License-Identifier: MIT
-- Writes down every lease, from when to when, beside the tables of examples/pg_workers/schema.sql;
-- and takes away what would hide a fault: verdict.sql asks for it afterwards.

CREATE EXTENSION btree_gist;

CREATE TABLE lease (
    job bigint NOT NULL,
    attempt integer NOT NULL,
    worker text NOT NULL,
    place integer NOT NULL,
    pool text,
    slot integer,
    during tstzrange NOT NULL
);
CREATE INDEX lease_open ON lease (job) WHERE upper_inf(during);

CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'running' THEN
        UPDATE lease SET during = tstzrange(lower(during), clock_timestamp())
        WHERE job = OLD.id AND upper_inf(during);
    END IF;
    IF NEW.state = 'running' THEN
        INSERT INTO lease
        SELECT NEW.id, NEW.attempt, NEW.worker, NEW.place, NEW.pool,
               (SELECT slot FROM permit WHERE permit.job = NEW.id), tstzrange(clock_timestamp(), NULL);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note_lease AFTER UPDATE OF state ON job FOR EACH ROW EXECUTE FUNCTION note_lease();

ALTER TABLE effect DROP CONSTRAINT effect_pkey; -- a second effect is found afterwards, not refused
GRANT ALL ON lease TO worker;
