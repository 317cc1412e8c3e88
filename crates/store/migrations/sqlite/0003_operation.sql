-- Schema 3: whether this database was restored from a backup, and which process goes on from it.

-- What was recorded since the backup is lacking. taken: when it was taken; at: when it was restored. No row when the
-- database was not restored, or when the node has recovered.
CREATE TABLE restored (
    taken INTEGER NOT NULL,
    at    INTEGER NOT NULL
);

-- The process that opened the database last. One that lost its session goes on only while it is that one.
CREATE TABLE owner (
    instance BLOB NOT NULL
);
