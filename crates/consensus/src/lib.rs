//! One round engine; IBFT 2.0 and QBFT on it (pure).
