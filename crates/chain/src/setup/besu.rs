//! What becomes of those options of Besu's that have no effect here.
//!
//! Names are those of Besu's command line up to 26.x, and some that older versions had and that networks'
//! files still set. An option either changes nothing that matters here, and is said once in a WARN; or it
//! asks for something that this program does not do, and is refused unless it switches that off.

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It changes nothing, for this reason.
    NoEffect(&'static str),
    /// It asks for something that there is not. It is taken when it is false, empty, `none` or `off`.
    Absent {
        /// A further value that asks for nothing.
        off: &'static str,
        /// Why not, and what does nearly the same.
        why: &'static str,
    },
}

/// Other names of options, and theirs.
pub(super) const OTHER_NAMES: &[(&str, &str)] = &[
    ("rpc-http-apis", "rpc-http-api"),
    ("rpc-ws-apis", "rpc-ws-api"),
    ("host-whitelist", "host-allowlist"),
    ("bonsai-maximum-back-layers-to-load", "bonsai-historical-block-limit"),
];

/// Experimental options begin with it.
const EXPERIMENTAL: char = 'X';

/// What becomes of the option, and its name; none where Besu has no such option, or this program has it.
pub(super) fn standing(name: &str) -> Option<(&'static str, Standing)> {
    if name.starts_with(EXPERIMENTAL) {
        let why = "experimental options (X…) are about the inside of another program";
        return Some(("X…", Standing::NoEffect(why)));
    }
    let all = || ABSENT.iter().chain(NO_EFFECT);
    let group = all().find(|group| group.names.contains(&name))?;
    let key = group.names.iter().find(|known| **known == name)?;
    Some((key, group.standing))
}

/// All names but those of experimental options.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let groups = ABSENT.iter().chain(NO_EFFECT).flat_map(|group| group.names.iter().copied());
    groups.chain(OTHER_NAMES.iter().map(|(other, _)| *other))
}

/// Options of one standing.
struct Group {
    names: &'static [&'static str],
    standing: Standing,
}

const fn absent(names: &'static [&'static str], off: &'static str, why: &'static str) -> Group {
    Group { names, standing: Standing::Absent { off, why } }
}

const fn no_effect(names: &'static [&'static str], why: &'static str) -> Group {
    Group { names, standing: Standing::NoEffect(why) }
}

const ABSENT: &[Group] = &[
    absent(
        &["discovery-enabled"],
        "",
        "peers are listed in static-nodes-file and bootnodes, there is no discovery: set it to false",
    ),
    absent(&["network"], "", "public networks are not joined: genesis-file describes the network"),
    absent(&["profile"], "", "profiles are sets of defaults: set the options that you want from it"),
    absent(
        &["banned-node-ids", "banned-node-id", "net-restrict"],
        "",
        "use permissions-nodes-config-file, which lists the nodes that may connect",
    ),
    absent(&["required-blocks"], "", "blocks are final here: compare hashes with eth_getBlockByNumber"),
    absent(&["engine-rpc-enabled"], "", "there is no Engine API: validators are those of QBFT or IBFT 2.0"),
    absent(&["security-module"], "localfile", "the node's key is read from node-private-key-file"),
    absent(&["plugins"], "", "plugins of Java are not loaded"),
    absent(
        &["rpc-http-tls-enabled", "rpc-ws-ssl-enabled"],
        "",
        "TLS is not spoken to clients: put a proxy that speaks it before rpc-http-host, or use rpc-socket-enabled",
    ),
    absent(
        &["rpc-http-authentication-credentials-file", "rpc-ws-authentication-credentials-file"],
        "",
        "there is no login with a password: give out tokens, and set …-authentication-jwt-public-key-file",
    ),
    absent(
        &[
            "rpc-http-api-method-no-auth",
            "rpc-http-api-methods-no-auth",
            "rpc-ws-api-method-no-auth",
            "rpc-ws-api-methods-no-auth",
        ],
        "",
        "a server asks for a token for all methods or for none: serve those on the other of HTTP and WebSocket",
    ),
    absent(
        &["graphql-http-enabled", "graphql-tls-enabled", "graphql-mtls-enabled"],
        "",
        "there is no GraphQL",
    ),
    absent(&["ethstats"], "", "use metrics-enabled"),
    absent(&["metrics-push-enabled"], "", "metrics are read from metrics-host and metrics-port"),
    absent(
        &["metrics-protocol"],
        "prometheus",
        "metrics are in the form of OpenMetrics, which Prometheus reads",
    ),
    absent(
        &["privacy-enabled", "privacy-multi-tenancy-enabled", "privacy-flexible-groups-enabled"],
        "",
        "private transactions are the flows of `tally node`",
    ),
    absent(
        &["permissions-nodes-contract-enabled", "permissions-accounts-contract-enabled"],
        "",
        "use permissions-nodes-config-file and permissions-accounts-config-file",
    ),
    absent(&["miner-stratum-enabled"], "", "nothing is mined"),
    absent(&["pruning-enabled"], "", "use data-storage-format and bonsai-historical-block-limit"),
    absent(&["history-expiry-prune"], "", "all blocks are kept"),
];

const NO_EFFECT: &[Group] = &[
    no_effect(&["color-enabled"], "log lines have no colours"),
    no_effect(&["json-pretty-print-enabled"], "answers are on one line"),
    no_effect(&["reorg-logging-threshold"], "blocks are final, nothing is reorganised"),
    no_effect(&["version-compatibility-protection"], "a database of a newer form is refused always"),
    no_effect(&["nat-method"], "nothing is asked of routers: p2p-host says where peers find the node"),
    no_effect(
        &["poa-discovery-retry-bootnodes", "discovery-dns-url"],
        "there is no discovery; bootnodes are tried again always",
    ),
    no_effect(
        &["p2p-host-ipv6", "p2p-interface-ipv6", "p2p-port-ipv6", "p2p-ipv6-outbound-enabled"],
        "the node listens at one address: p2p-host and p2p-interface take one of IPv6 as well",
    ),
    no_effect(
        &[
            "remote-connections-limit-enabled",
            "remote-connections-max-percentage",
            "random-peer-priority-enabled",
            "p2p-peer-lower-bound",
            "max-remote-initiated-connections",
        ],
        "sessions are kept with the peers that are listed, and with max-peers in all",
    ),
    no_effect(
        &[
            "engine-host-allowlist",
            "engine-jwt-disabled",
            "engine-jwt-enabled",
            "engine-jwt-secret",
            "engine-rpc-port",
        ],
        "there is no Engine API",
    ),
    no_effect(
        &["genesis-state-hash-cache-enabled"],
        "the state of the genesis block is made once, at the first start",
    ),
    no_effect(
        &["sync-min-peers", "fast-sync-min-peers"],
        "a sync begins with the first peer and checks what each of them gives",
    ),
    no_effect(&["kzg-trusted-setup"], "that of Ethereum's ceremony is built in"),
    no_effect(
        &[
            "rpc-http-tls-keystore-file",
            "rpc-http-tls-keystore-password-file",
            "rpc-http-tls-client-auth-enabled",
            "rpc-http-tls-known-clients-file",
            "rpc-http-tls-ca-clients-enabled",
            "rpc-http-tls-truststore-file",
            "rpc-http-tls-truststore-password-file",
            "rpc-http-tls-protocols",
            "rpc-http-tls-protocol",
            "rpc-http-tls-cipher-suites",
            "rpc-http-tls-cipher-suite",
            "rpc-ws-ssl-keystore-file",
            "rpc-ws-ssl-keystore-password",
            "rpc-ws-ssl-keystore-password-file",
            "rpc-ws-ssl-keystore-type",
            "rpc-ws-ssl-client-auth-enabled",
            "rpc-ws-ssl-truststore-file",
            "rpc-ws-ssl-truststore-password",
            "rpc-ws-ssl-truststore-password-file",
            "rpc-ws-ssl-truststore-type",
            "rpc-ws-ssl-key-file",
            "rpc-ws-ssl-cert-file",
            "rpc-ws-ssl-trustcert-file",
        ],
        "TLS is not spoken to clients, see rpc-http-tls-enabled and rpc-ws-ssl-enabled",
    ),
    no_effect(
        &["rpc-http-authentication-jwt-algorithm", "rpc-ws-authentication-jwt-algorithm"],
        "the algorithm follows from the public key",
    ),
    no_effect(
        &[
            "cache-last-blocks",
            "cache-last-block-headers",
            "cache-last-block-headers-preload-enabled",
            "cache-precompiles",
            "tx-sender-nonce-index-enabled",
            "auto-log-bloom-caching-enabled",
            "receipt-compaction-enabled",
        ],
        "caches and indexes are of this program's own making",
    ),
    no_effect(&["rpc-max-trace-filter-range"], "there is no trace_filter"),
    no_effect(&["rpc-tx-feecap"], "what a sender has signed to pay is taken"),
    no_effect(
        &[
            "graphql-http-host",
            "graphql-http-port",
            "graphql-http-cors-origins",
            "graphql-tls-keystore-file",
            "graphql-tls-keystore-password-file",
            "graphql-tls-truststore-file",
            "graphql-tls-truststore-password-file",
        ],
        "there is no GraphQL",
    ),
    no_effect(
        &["api-gas-price-blocks", "api-gas-price-percentile", "api-gas-price-max"],
        "eth_gasPrice follows the base fee, the tips of the last blocks and min-gas-price",
    ),
    no_effect(
        &["estimate-gas-tolerance-ratio"],
        "eth_estimateGas answers at most 1.5 % more than the least gas that is enough",
    ),
    no_effect(&["metrics-category"], "all metrics are shown"),
    no_effect(
        &["metrics-push-host", "metrics-push-port", "metrics-push-interval", "metrics-push-prometheus-job"],
        "metrics are not pushed",
    ),
    no_effect(
        &["miner-enabled", "miner-coinbase", "miner-extra-data", "miner-stratum-host", "miner-stratum-port"],
        "blocks are made by the chain's validators, with their own addresses and 32 bytes of zero as vanity",
    ),
    no_effect(
        &[
            "min-block-occupancy-ratio",
            "block-txs-selection-max-time",
            "poa-block-txs-selection-max-time",
            "plugin-block-txs-selection-max-time",
            "max-blobs-per-transaction",
            "max-blobs-per-block",
        ],
        "a block is filled until its gas or its time is used up; blobs are bounded by the fork",
    ),
    no_effect(
        &["min-priority-fee", "tx-pool-min-gas-price"],
        "min-gas-price is the least that a transaction pays",
    ),
    no_effect(
        &[
            "tx-pool",
            "tx-pool-layer-max-capacity",
            "tx-pool-max-prioritized",
            "tx-pool-max-prioritized-by-type",
            "tx-pool-enable-balance-check",
            "tx-pool-no-late-funding",
            "tx-pool-forget-invalid-txn-mins",
            "tx-pool-retention-hours",
            "tx-pool-limit-by-account-percentage",
            "tx-pool-min-score",
            "tx-pool-blob-price-bump",
            "tx-pool-hashes-max-size",
        ],
        "there is one kind of pool: tx-pool-max-size and tx-pool-max-future-by-sender bound it",
    ),
    no_effect(
        &["tx-pool-no-local-priority", "tx-pool-disable-locals", "tx-pool-priority-senders"],
        "no sender goes before another",
    ),
    no_effect(
        &["tx-pool-enable-save-restore", "tx-pool-save-file"],
        "what this node's own clients sent is in the database, and outlives a restart always",
    ),
    no_effect(&["revert-reason-enabled"], "receipts name no reason: eth_call and debug_traceTransaction do"),
    no_effect(&["key-value-storage"], "the database is of this program's own form"),
    no_effect(
        &["ethstats-contact", "ethstats-cacert-file", "ethstats-report-interval"],
        "nothing is reported to ethstats",
    ),
    no_effect(
        &[
            "bonsai-limit-trie-logs-enabled",
            "bonsai-trie-logs-pruning-window-size",
            "bonsai-trie-log-pruning-enabled",
            "bonsai-trie-log-retention-threshold",
            "bonsai-parallel-tx-processing-enabled",
            "bonsai-parallel-state-root-computation-enabled",
            "pruning-blocks-retained",
            "pruning-block-confirmations",
        ],
        "older states are kept for bonsai-historical-block-limit blocks",
    ),
    no_effect(
        &[
            "snapsync-server-enabled",
            "snapsync-synchronizer-transaction-indexing-enabled",
            "snapsync-synchronizer-pre-checkpoint-headers-only-enabled",
            "snapsync-bft-enabled",
        ],
        "every node gives states to those that sync, of sealed chains too",
    ),
    no_effect(
        &["era1-import-prepipeline-enabled", "era1-data-uri", "era1-import-prepipeline-concurrency"],
        "blocks are imported by `tally chain import`",
    ),
    no_effect(&["plugin-continue-on-error", "plugins-verification-mode"], "plugins of Java are not loaded"),
    no_effect(
        &[
            "privacy-url",
            "privacy-public-key-file",
            "privacy-marker-transaction-signing-key-file",
            "privacy-tls-enabled",
            "permissions-nodes-contract-address",
            "permissions-nodes-contract-version",
            "permissions-accounts-contract-address",
        ],
        "it belongs to an option that is not possible here",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_option_has_one_standing() {
        let all: Vec<_> = names().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let own: BTreeSet<_> = super::super::Settings::names().into_iter().collect();
        assert!(all.iter().all(|name| !own.contains(name)), "an option that works is not in the table");
    }
}
