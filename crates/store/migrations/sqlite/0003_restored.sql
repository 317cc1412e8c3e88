-- Schema 3: whether this database was restored from a backup, and what was recorded since the backup is lacking.
-- taken: when the backup was taken; at: when it was restored. No row when it was not, or when the node has recovered.
CREATE TABLE restored (
    taken INTEGER NOT NULL,
    at    INTEGER NOT NULL
);
