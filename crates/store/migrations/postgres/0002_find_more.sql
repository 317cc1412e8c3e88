-- Schema 2: pages sorted by quantity, ranges of time, and classes among consumed states, without reading all states.
CREATE INDEX state_quantity ON state (asset, quantity, key)
    WHERE consumer IS NULL AND asset IS NOT NULL AND quantity IS NOT NULL;
CREATE INDEX ledger_recorded ON ledger (recorded, number);

CREATE TABLE class_posting (
    class BIGINT NOT NULL,
    key   BIGINT NOT NULL,
    PRIMARY KEY (class, key)
);
INSERT INTO class_posting (class, key) SELECT class, key FROM state ORDER BY class, key;
