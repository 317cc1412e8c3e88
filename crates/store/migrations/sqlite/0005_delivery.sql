-- Schema 5: what is final and has not arrived, and what is not known to be final yet.

-- Who has not confirmed which final transaction. due: when it is delivered again.
CREATE TABLE undelivered (
    party       BLOB    NOT NULL,
    transaction_id BLOB NOT NULL,
    first_tried INTEGER NOT NULL,
    last_tried  INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    reason      BLOB    NOT NULL,
    PRIMARY KEY (party, transaction_id)
) WITHOUT ROWID;
CREATE INDEX undelivered_transaction ON undelivered (transaction_id);

-- Transactions whose notary was asked and has not been heard. bytes: the transaction with all other signatures;
-- told: who has to have it if it is final.
CREATE TABLE unresolved (
    transaction_id BLOB NOT NULL PRIMARY KEY,
    bytes       BLOB    NOT NULL,
    told        BLOB    NOT NULL,
    first_tried INTEGER NOT NULL,
    last_tried  INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    reason      BLOB    NOT NULL
) WITHOUT ROWID;
