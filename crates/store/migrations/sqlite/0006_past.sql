-- Schema 6: which database this is among all that the node ran on, what peers told of theirs, and what is consumed
-- by transactions that are not recorded here.

-- standing: as the node encodes it. recovery: why the node has to be recovered; null when it has not.
ALTER TABLE store ADD COLUMN standing BLOB;
ALTER TABLE store ADD COLUMN recovery BLOB;

-- The newest standing that a peer told.
CREATE TABLE acquaintance (
    peer     INTEGER PRIMARY KEY,
    standing BLOB NOT NULL
);

-- Our queues that were set anew; another has the name of the store.
CREATE TABLE queue_name (
    peer INTEGER PRIMARY KEY,
    name BLOB NOT NULL
);

-- Beside states whose consumer is -1.
CREATE TABLE consumed_elsewhere (
    key      INTEGER PRIMARY KEY,
    consumer BLOB    NOT NULL,
    at       INTEGER NOT NULL
);
