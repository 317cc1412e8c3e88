-- Schema 4: unconsumed states that are not spent, and what this node agreed to buy.
-- aside: null for a state that may be spent, 0 for an encumbered one, 1 for one that its notary has given to `lost`.
ALTER TABLE state ADD COLUMN aside BIGINT, ADD COLUMN lost BYTEA;
DROP INDEX state_coin;
CREATE INDEX state_coin ON state (asset, owner, key)
    WHERE consumer IS NULL AND asset IS NOT NULL AND aside IS NULL;
CREATE INDEX state_aside ON state (asset, owner, key)
    WHERE consumer IS NULL AND asset IS NOT NULL AND aside IS NOT NULL;

-- rule: which consent of the configuration was used. quantity: less 2^63, as in `state`.
CREATE TABLE consent (
    flow     BYTEA  PRIMARY KEY,
    rule     BYTEA  NOT NULL,
    quantity BIGINT NOT NULL,
    at       BIGINT NOT NULL
);
CREATE INDEX consent_at ON consent (at);
