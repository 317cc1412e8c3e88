-- Schema 1. Text is kept as its UTF-8 bytes, so that both databases compare and limit it alike.
-- Rows that are written often have integer keys that grow: they are appended, never inserted between others.

-- Those who send to us or are sent to.
CREATE TABLE peer (
    id   INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE
);

-- Values that many states share. space: 0 key, 1 asset.
CREATE TABLE term (
    id    INTEGER PRIMARY KEY,
    space INTEGER NOT NULL,
    value BLOB    NOT NULL,
    UNIQUE (space, value)
);

-- What a state is about, of those attributes that have few values.
CREATE TABLE class (
    id       INTEGER PRIMARY KEY,
    contract BLOB NOT NULL,
    kind     BLOB NOT NULL,
    notary   BLOB NOT NULL,
    UNIQUE (contract, kind, notary)
);

-- This store among all others: its name in conversations with peers.
CREATE TABLE store (
    queue BLOB NOT NULL
);
INSERT INTO store (queue) VALUES (randomblob(16));

-- mark: 0 running, 1 paused, 2 held. outcome is null while the flow has not ended.
CREATE TABLE flow (
    number    INTEGER PRIMARY KEY,
    id        BLOB    NOT NULL UNIQUE,
    name      BLOB    NOT NULL,
    version   INTEGER NOT NULL,
    arguments BLOB    NOT NULL,
    origin    BLOB    NOT NULL,
    seed      BLOB    NOT NULL,
    started   INTEGER NOT NULL,
    mark      INTEGER NOT NULL,
    reason    BLOB,
    ended     INTEGER,
    outcome   BLOB
);
CREATE INDEX flow_unfinished ON flow (number) WHERE outcome IS NULL;

-- All that a flow holds while it runs, so that its end removes one range.
-- kind: 0 step, 1 arrival, 2 lock, 3 dependency. key: see part.rs.
CREATE TABLE part (
    flow  INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    key   BLOB    NOT NULL,
    bytes BLOB    NOT NULL,
    PRIMARY KEY (flow, kind, key)
) WITHOUT ROWID;

-- key: peer << 44 | number.
CREATE TABLE outbound (
    key     INTEGER PRIMARY KEY,
    message BLOB NOT NULL
);
CREATE TABLE acknowledged (
    peer  INTEGER PRIMARY KEY,
    up_to INTEGER NOT NULL
);
CREATE TABLE received (
    peer  INTEGER NOT NULL,
    queue BLOB    NOT NULL,
    up_to INTEGER NOT NULL,
    PRIMARY KEY (peer, queue)
) WITHOUT ROWID;

CREATE TABLE ledger (
    number   INTEGER PRIMARY KEY,
    id       BLOB    NOT NULL UNIQUE,
    recorded INTEGER NOT NULL,
    bytes    BLOB    NOT NULL
);

-- The vault. key: number of the transaction << 20 | index of the output. quantity: less 2^63, so that order is kept.
CREATE TABLE state (
    key          INTEGER PRIMARY KEY,
    consumer     INTEGER,
    class        INTEGER NOT NULL,
    owner        INTEGER,
    asset        INTEGER,
    quantity     INTEGER,
    linear       BLOB,
    participants BLOB    NOT NULL,
    state        BLOB    NOT NULL,
    details      BLOB
);
-- SQLite looks into the row for what a query asks of a partial index's condition, unless the index has the column.
CREATE INDEX state_class ON state (class, consumer) WHERE consumer IS NULL;
CREATE INDEX state_coin ON state (asset, owner, consumer) WHERE consumer IS NULL AND asset IS NOT NULL;
CREATE INDEX state_linear ON state (linear) WHERE linear IS NOT NULL;

-- Which states, consumed ones too, a key takes part in.
CREATE TABLE posting (
    term INTEGER NOT NULL,
    key  INTEGER NOT NULL,
    PRIMARY KEY (term, key)
) WITHOUT ROWID;

CREATE TABLE attachment (
    number INTEGER PRIMARY KEY,
    id     BLOB NOT NULL UNIQUE,
    bytes  BLOB NOT NULL
);

-- The notary's memory. state: transaction, then index, big-endian.
CREATE TABLE spent (
    state     BLOB    PRIMARY KEY,
    consumer  BLOB    NOT NULL,
    requester INTEGER NOT NULL,
    at        INTEGER NOT NULL
) WITHOUT ROWID;
