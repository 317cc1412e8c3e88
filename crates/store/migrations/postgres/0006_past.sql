-- Schema 6: which database this is among all that the node ran on, what peers told of theirs, and what is consumed
-- by transactions that are not recorded here.

-- standing: as the node encodes it. recovery: why the node has to be recovered; null when it has not.
ALTER TABLE store ADD COLUMN standing BYTEA;
ALTER TABLE store ADD COLUMN recovery BYTEA;

-- The newest standing that a peer told.
CREATE TABLE acquaintance (
    peer     BIGINT PRIMARY KEY,
    standing BYTEA NOT NULL
);

-- Our queues that were set anew; another has the name of the store.
CREATE TABLE queue_name (
    peer BIGINT PRIMARY KEY,
    name BYTEA NOT NULL
);

-- Beside states whose consumer is -1.
CREATE TABLE consumed_elsewhere (
    key      BIGINT PRIMARY KEY,
    consumer BYTEA    NOT NULL,
    at       BIGINT NOT NULL
);
