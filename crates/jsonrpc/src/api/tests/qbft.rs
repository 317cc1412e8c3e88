//! A chain of one validator, not running.

use super::*;

pub(super) fn client() -> Client {
    // RLP of [vanity, [validator], [], 0, []], as Besu's documentation shows it.
    let validator = "1111111111111111111111111111111111111111";
    let extra = format!("0xf83aa0{}d594{validator}c080c0", "00".repeat(32));
    let genesis = json!({
        "config": {"chainId": 1337, "berlinBlock": 0, "qbft": {"epochlength": 30000, "blockperiodseconds": 5, "requesttimeoutseconds": 10}},
        "nonce": "0x0", "timestamp": "0x58ee40ba", "extraData": extra, "gasLimit": "0x1fffffffffffff", "difficulty": "0x1",
        "mixHash": "0x63746963616c2062797a616e74696e65206661756c7420746f6c6572616e6365",
        "coinbase": "0x0000000000000000000000000000000000000000", "alloc": {},
    });
    Client::over(&genesis.to_string(), &[])
}

#[test]
fn validators_and_votes_are_told_and_taken() {
    let client = client();
    let validator = "0x1111111111111111111111111111111111111111";
    let other = "0x2222222222222222222222222222222222222222";
    assert_eq!(client.ok("qbft_getValidatorsByBlockNumber", &json!(["latest"])), json!([validator]));
    let hash = client.ok("eth_getBlockByNumber", &json!(["0x0", false]))["hash"].clone();
    assert_eq!(client.ok("qbft_getValidatorsByBlockHash", &json!([hash])), json!([validator]));
    assert_eq!(client.ok("qbft_getPendingVotes", &json!([])), json!({}));
    assert_eq!(client.ok("qbft_proposeValidatorVote", &json!([other, true])), true);
    assert_eq!(client.ok("qbft_getPendingVotes", &json!([])), json!({other: true}));
    assert_eq!(client.ok("qbft_discardValidatorVote", &json!([other])), true);
    assert_eq!(client.ok("qbft_getPendingVotes", &json!([])), json!({}));
    assert_eq!(client.ok("qbft_getRequestTimeoutSeconds", &json!([])), 10);
    let metrics = client.ok("qbft_getSignerMetrics", &json!([]));
    assert_eq!(
        metrics,
        json!([{"address": validator, "proposedBlockCount": "0x0", "lastProposedBlockNumber": "0x0"}])
    );
    assert_eq!(client.code("ibft_getValidatorsByBlockNumber", &json!(["latest"])), -32604);
    // What validators seal is final at once.
    assert_eq!(client.ok("eth_getBlockByNumber", &json!(["finalized", false]))["number"], "0x0");
    assert_eq!(client.ok("eth_maxPriorityFeePerGas", &json!([])), "0x0");
    assert_eq!(client.code("testing_buildBlockV1", &json!([hash, {}, [], "0x"])), -32004);
}
