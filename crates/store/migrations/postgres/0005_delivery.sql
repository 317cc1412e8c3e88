-- Schema 5: what is final and has not arrived, and what is not known to be final yet.

-- Who has not confirmed which final transaction. due: when it is delivered again.
CREATE TABLE undelivered (
    party          BYTEA  NOT NULL,
    transaction_id BYTEA  NOT NULL,
    first_tried    BIGINT NOT NULL,
    last_tried     BIGINT NOT NULL,
    due            BIGINT NOT NULL,
    reason         BYTEA  NOT NULL,
    PRIMARY KEY (party, transaction_id)
);
CREATE INDEX undelivered_transaction ON undelivered (transaction_id);

-- Transactions whose notary was asked and has not been heard. bytes: the transaction with all other signatures;
-- told: who has to have it if it is final.
CREATE TABLE unresolved (
    transaction_id BYTEA  NOT NULL PRIMARY KEY,
    bytes          BYTEA  NOT NULL,
    told           BYTEA  NOT NULL,
    first_tried    BIGINT NOT NULL,
    last_tried     BIGINT NOT NULL,
    due            BIGINT NOT NULL,
    reason         BYTEA  NOT NULL
);
