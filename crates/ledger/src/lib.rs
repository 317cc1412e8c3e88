//! Participants, accounts, assets, legs, decisions, balances: pure, no IO.
