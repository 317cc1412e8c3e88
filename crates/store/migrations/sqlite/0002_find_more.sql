-- Schema 2: pages sorted by quantity, ranges of time, and classes among consumed states, without reading all states.
CREATE INDEX state_quantity ON state (asset, consumer, quantity)
    WHERE consumer IS NULL AND asset IS NOT NULL AND quantity IS NOT NULL;
CREATE INDEX ledger_recorded ON ledger (recorded);

CREATE TABLE class_posting (
    class INTEGER NOT NULL,
    key   INTEGER NOT NULL,
    PRIMARY KEY (class, key)
) WITHOUT ROWID;
INSERT INTO class_posting (class, key) SELECT class, key FROM state ORDER BY class, key;
