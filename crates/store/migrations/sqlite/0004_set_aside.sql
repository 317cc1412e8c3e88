-- Schema 4: unconsumed states that are not spent, and what this node agreed to buy.
-- aside: null for a state that may be spent, 0 for an encumbered one, 1 for one that its notary has given to `lost`.
ALTER TABLE state ADD COLUMN aside INTEGER;
ALTER TABLE state ADD COLUMN lost BLOB;
DROP INDEX state_coin;
CREATE INDEX state_coin ON state (asset, owner, consumer, aside)
    WHERE consumer IS NULL AND asset IS NOT NULL AND aside IS NULL;
CREATE INDEX state_aside ON state (asset, owner, consumer)
    WHERE consumer IS NULL AND asset IS NOT NULL AND aside IS NOT NULL;

-- rule: which consent of the configuration was used. quantity: less 2^63, as in `state`.
CREATE TABLE consent (
    flow     BLOB    PRIMARY KEY,
    rule     BLOB    NOT NULL,
    quantity INTEGER NOT NULL,
    at       INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX consent_at ON consent (at);
