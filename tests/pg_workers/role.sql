-- SPDX-License-Identifier: MIT
-- The workers are not superusers: else the last connections would be theirs.
CREATE ROLE worker LOGIN;
GRANT ALL ON ALL TABLES IN SCHEMA public TO worker;
