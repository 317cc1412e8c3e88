mod acts;
mod again;
mod desk;
mod standard;
mod strangers;
mod support;
mod transport;
mod unread;

use crate::access::{Quota, Role};
use crate::grpc::wire::{self, Outcomes, SubmitRequest, submit_request::Transactions};
use crate::grpc::{Client, ClientError, Refused, Responses, Said};
use prost::Message as _;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{Bench, NETWORK, batch, customer, key};
use tally_ledger::{NetworkTag, Transaction};
use tonic::Code;

async fn outcomes(responses: &mut Responses) -> (u64, Outcomes) {
    match responses.next().await.unwrap() {
        Some((tag, Said::Outcomes(outcomes))) => (tag, outcomes),
        other => panic!("{other:?}"),
    }
}

async fn refusal(responses: &mut Responses) -> (u64, Refused) {
    match responses.next().await.unwrap() {
        Some((tag, Said::Refused(refused))) => (tag, refused),
        other => panic!("{other:?}"),
    }
}

async fn end(responses: &mut Responses) -> Refused {
    match responses.next().await {
        Err(ClientError::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

fn statuses(outcomes: &Outcomes) -> Vec<wire::Status> {
    outcomes.statuses().collect()
}

const SETTLED: wire::Status = wire::Status::Settled;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn batches_are_settled_and_answered_in_order_until_the_client_closes_its_side() {
    let mut bench = Bench::new();
    let batches: Vec<_> = (1..=40).map(|count| bench.batch(count)).collect();
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    let sends = tokio::spawn(async move {
        for (tag, batch) in (100..).zip(batches) {
            assert!(requests.send(tag, &batch).await);
        }
    });
    let mut places = std::collections::BTreeSet::new();
    for count in 1..=40 {
        let (tag, outcomes) = outcomes(&mut responses).await;
        assert_eq!((tag, outcomes.statuses.len()), (99 + count as u64, count));
        assert!(statuses(&outcomes).iter().all(|status| *status == SETTLED), "{outcomes:?}");
        assert!(outcomes.times_ms.iter().all(|time| *time > 0) && outcomes.refusals.is_empty());
        places.extend(outcomes.sequences);
    }
    sends.await.unwrap();
    assert_eq!(responses.next().await.unwrap(), None);
    // Four came before: two accounts, two issues.
    assert_eq!(places, (4..4 + 820).collect());
    assert_eq!(bench.balance(0), 10_000_000 - 820);
}

fn message(transaction: &Transaction) -> wire::Transaction {
    let header = &transaction.header;
    wire::Transaction {
        kind: header.kind.into(),
        network: NETWORK.0.to_vec(),
        expiry_ms: header.expiry.0,
        uetr: header.uetr.0.to_vec(),
        details: Vec::new(),
        seed: transaction.seed.to_vec(),
        legs: transaction
            .legs
            .iter()
            .map(|leg| wire::Leg {
                participant: leg.participant.0.into(),
                asset: leg.asset.0.into(),
                account: leg.account.0,
                amount: leg.amount.0,
            })
            .collect(),
        signers: transaction
            .signers
            .iter()
            .map(|signer| wire::Signer {
                key: signer.key.as_bytes().to_vec(),
                signature: signer.signature.as_bytes().to_vec(),
            })
            .collect(),
    }
}

fn list(transactions: Vec<wire::Transaction>) -> Option<Transactions> {
    Some(Transactions::List(wire::TransactionList { transactions }.encode_to_vec().into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn transactions_as_messages_are_those_of_a_batch() {
    let mut bench = Bench::new();
    let payment = bench.payment(7);
    assert_eq!(
        super::forms::transactions(&list(vec![message(&payment)]).unwrap()).unwrap(),
        std::slice::from_ref(&payment)
    );
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    for tag in [1, 2] {
        // The second is the same to the letter and has the same outcome.
        let transactions = list(vec![message(&payment)]);
        requests.send_request(SubmitRequest { tag, transactions }).await;
    }
    let (first, second) = (outcomes(&mut responses).await, outcomes(&mut responses).await);
    assert_eq!((statuses(&first.1), first.1), (vec![SETTLED], second.1));
    assert_eq!(bench.balance(1), 10_000_007);

    let wrong = |change: fn(&mut wire::Transaction)| {
        let mut wrong = message(&payment);
        change(&mut wrong);
        super::forms::transactions(&list(vec![message(&payment), wrong]).unwrap())
            .unwrap_err()
            .detail()
            .to_owned()
    };
    assert_eq!(wrong(|t| t.uetr.truncate(4)), "transaction 1, uetr: 16 bytes are wanted, these are 4");
    assert_eq!(wrong(|t| t.network.truncate(4)), "transaction 1, network: 32 bytes are wanted, these are 4");
    assert_eq!(wrong(|t| t.seed.push(0)), "transaction 1, seed: 16 bytes are wanted, these are 17");
    assert_eq!(wrong(|t| t.legs[0].asset = 65_536), "transaction 1, asset: 65536 is above 65535");
    assert_eq!(wrong(|t| t.details = vec![1]), "transaction 1, details: 32 bytes are wanted, these are 1");
    assert_eq!(wrong(|t| t.seed = vec![0; 4096]), "transaction 1 has more than 4096 bytes");
    assert!(wrong(|t| t.signers[0].key.clear()).contains("key: 32 bytes"));
    assert!(wrong(|t| t.signers[0].signature.clear()).contains("signature: 64 bytes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_refused_says_why_and_the_stream_goes_on() {
    let mut bench = Bench::new();
    let (mut foreign, good) = (bench.payment(1), bench.payment(2));
    foreign.header.network = NetworkTag(80);
    foreign.signers.clear();
    foreign.sign(&NETWORK, &customer(0));
    let mixed = batch([bench.unsigned(1).transaction(0).unwrap(), foreign, good.clone()]);
    let mut again = Transaction { seed: [9; 16], signers: Vec::new(), ..good };
    again.sign(&NETWORK, &customer(0));
    let mut order = bench.payment(1);
    order.header.kind = 4;
    let mut alien = bench.payment(1);
    alien.legs.iter_mut().for_each(|leg| leg.participant = tally_ledger::ParticipantId(0));

    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    requests.send(0, &mixed).await;
    requests.send(1, &batch([again])).await;
    requests.send_encoded(2, vec![9].into()).await;
    requests.send_request(SubmitRequest { tag: 3, transactions: None }).await;
    requests.send_request(SubmitRequest { tag: 4, transactions: list(vec![message(&order)]) }).await;
    requests.send(5, &batch([alien])).await;
    requests.send(6, &bench.batch(0)).await;
    requests.send(7, &bench.batch(1)).await;
    drop(requests);

    let (_, mixed) = outcomes(&mut responses).await;
    assert_eq!(statuses(&mixed), [wire::Status::Refused, wire::Status::Refused, SETTLED]);
    let codes: Vec<_> =
        mixed.refusals.iter().map(|r| (r.index, r.reason.as_ref().unwrap().code.as_str())).collect();
    assert_eq!(codes, [(0, "DS0A"), (1, "FF01")]);
    let (_, again) = outcomes(&mut responses).await;
    let first = again.refusals[0].first.as_ref().unwrap();
    assert_eq!(again.refusals[0].reason.as_ref().unwrap().code, "AM05");
    assert_eq!((first.status(), first.sequence), (SETTLED, Some(mixed.sequences[2])));
    for (tag, status, code, text) in [
        (2, Code::InvalidArgument, "FF01", "transaction batch: the version is unknown at byte 1"),
        (3, Code::InvalidArgument, "FF01", "a request has `batch` or `list`; this one has neither"),
        (4, Code::InvalidArgument, "FF01", "account orders go to /v1/accounts"),
        (5, Code::PermissionDenied, "forbidden", "alice does not act for CENTDEFF"),
    ] {
        let (found, refused) = refusal(&mut responses).await;
        assert_eq!((found, refused.status, refused.code.as_str()), (tag, status, code));
        assert_eq!(refused.text, text);
    }
    assert_eq!(outcomes(&mut responses).await, (6, Outcomes::default()));
    assert_eq!(statuses(&outcomes(&mut responses).await.1), [SETTLED]);
    assert_eq!(responses.next().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_those_come_in_who_may() {
    let bench = Bench::new();
    let nobody = Client::connect(&bench.url(), None, None).await.unwrap();
    let unknown = Client::connect(&bench.url(), Some("tally_00"), None).await.unwrap();
    for client in [nobody, unknown] {
        let Err(ClientError::Refused(refused)) = client.submit().await else { panic!() };
        assert_eq!((refused.status, refused.code.as_str()), (Code::Unauthenticated, "unknown"));
        let Err(ClientError::Refused(refused)) = client.balance("ALPHDEFF", "0").await else { panic!() };
        assert_eq!(refused.status, Code::Unauthenticated);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_ends_when_its_user_is_taken_away_or_loses_the_role() {
    for is_revoked in [true, false] {
        let mut bench = Bench::new();
        let (requests, mut responses) = bench.client().await.submit().await.unwrap();
        requests.send(1, &bench.batch(1)).await;
        assert_eq!(statuses(&outcomes(&mut responses).await.1), [SETTLED]);
        if is_revoked {
            bench.revoke();
        } else {
            bench.grant(bench.entry(&[Role::Read]));
        }
        let ended = tokio::time::timeout(Duration::from_secs(20), end(&mut responses)).await.unwrap();
        let code = if is_revoked { Code::Unauthenticated } else { Code::PermissionDenied };
        assert_eq!(ended.status, code);
        assert!(
            !requests.send(2, &bench.batch(1)).await || responses.next().await.is_ok_and(|n| n.is_none())
        );
        assert_eq!(bench.balance(1), 10_000_001);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn more_than_agreed_waits() {
    let mut bench = Bench::with(|_| (), |alice| alice.quota = Quota { per_second: 50, burst: 20 });
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    let began = std::time::Instant::now();
    for tag in 0..3 {
        requests.send(tag, &bench.batch(20)).await;
    }
    requests.send(3, &bench.batch(21)).await;
    for _ in 0..3 {
        assert!(statuses(&outcomes(&mut responses).await.1).iter().all(|status| *status == SETTLED));
    }
    // 61 with the stream itself, of which 20 at once: 41 at 20 ms each.
    assert!(began.elapsed() > Duration::from_millis(700), "{:?}", began.elapsed());
    let (tag, refused) = refusal(&mut responses).await;
    assert_eq!((tag, refused.status, refused.retry_after), (3, Code::ResourceExhausted, None));
    assert_eq!(refused.text, "alice may send 20 transactions in a request; this has 21");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn more_than_agreed_is_refused_when_waiting_takes_too_long() {
    let quota = Quota { per_second: 1, burst: 20 };
    let mut bench =
        Bench::with(|settings| settings.http.answer_timeout_ms = 2000, |alice| alice.quota = quota);
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    requests.send(1, &bench.batch(19)).await;
    requests.send(2, &bench.batch(20)).await;
    assert_eq!(outcomes(&mut responses).await.0, 1);
    let (tag, refused) = refusal(&mut responses).await;
    assert_eq!((tag, refused.status, refused.code.as_str()), (2, Code::ResourceExhausted, "quota"));
    assert!(refused.retry_after.unwrap() > Duration::from_secs(2), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_busy_network_is_waited_for() {
    let mut bench = Bench::new();
    bench.desk.busy.store(3, Ordering::SeqCst);
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    requests.send(1, &bench.batch(2)).await;
    assert_eq!(statuses(&outcomes(&mut responses).await.1), [SETTLED, SETTLED]);
    assert_eq!(bench.desk.busy.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_network_that_stays_busy_refuses_the_request_only() {
    let mut bench = Bench::with(|settings| settings.http.answer_timeout_ms = 100, |_| ());
    bench.desk.busy.store(usize::MAX, Ordering::SeqCst);
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    requests.send(1, &bench.batch(1)).await;
    let (tag, refused) = refusal(&mut responses).await;
    assert_eq!((tag, refused.status, refused.code.as_str()), (1, Code::Unavailable, "AB10"));
    assert_eq!(refused.retry_after, Some(Duration::from_secs(1)));
    bench.desk.busy.store(0, Ordering::SeqCst);
    requests.send(2, &bench.batch(1)).await;
    assert!(matches!(responses.next().await.unwrap(), Some((2, Said::Outcomes(_)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_does_not_read_is_not_read_from() {
    let mut bench = Bench::new();
    let batch = bench.unsigned(4096);
    let encoded = bytes::Bytes::from(crate::codec::encode(&batch));
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_secs(3), requests.send_encoded(sent, encoded.clone())).await
        == Ok(true)
    {
        sent += 1;
    }
    // Each response is larger than what the connection takes ahead of being read; some requests wait on their way.
    let taken = u64::try_from(bench.desk.taken.load(Ordering::SeqCst)).unwrap();
    let window = u64::try_from(super::stream::WINDOW).unwrap();
    assert!((window..=window + 4).contains(&taken), "{taken} of {sent}");
    assert!((taken..=taken + 8).contains(&sent), "{taken} of {sent}");
    let reads = tokio::spawn(async move {
        let mut count = 0;
        while let Some((tag, said)) = responses.next().await.unwrap() {
            assert!(matches!(said, Said::Outcomes(outcomes) if outcomes.refusals.len() == 4096));
            assert_eq!(tag, count);
            count += 1;
        }
        count
    });
    drop(requests);
    assert_eq!(reads.await.unwrap(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_message_that_is_too_large_ends_the_stream() {
    let mut bench = Bench::with(|settings| settings.http.max_body_bytes = 10_000, |_| ());
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    requests.send(1, &bench.batch(1)).await;
    assert_eq!(statuses(&outcomes(&mut responses).await.1), [SETTLED]);
    requests.send_encoded(2, vec![0; 10_000].into()).await;
    let ended = end(&mut responses).await;
    assert_eq!((ended.status, ended.code.as_str()), (Code::ResourceExhausted, "FF01"));
    assert_eq!(ended.text, "the request is larger than 10000 bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_under_way_is_answered_when_the_gateway_stops() {
    let mut bench = Bench::new();
    bench.desk.hold(true);
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    let before = bench.desk.taken.load(Ordering::SeqCst);
    for tag in 0..3 {
        requests.send(tag, &bench.batch(2)).await;
    }
    while bench.desk.taken.load(Ordering::SeqCst) < before + 3 {
        tokio::task::yield_now().await;
    }
    bench.request_stop();
    // Nothing is read any more, and what was read waits for its outcome.
    bench.desk.hold(false);
    for tag in 0..3 {
        let (found, outcomes) = outcomes(&mut responses).await;
        assert_eq!((found, statuses(&outcomes)), (tag, vec![SETTLED, SETTLED]));
    }
    let ended = end(&mut responses).await;
    assert_eq!((ended.status, ended.code.as_str()), (Code::Unavailable, "stops"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn questions_are_answered_as_over_http() {
    let mut bench = Bench::new();
    let (client, payment) = (bench.client().await, bench.payment(250));
    let (requests, mut responses) = client.submit().await.unwrap();
    requests.send(1, &batch([payment.clone()])).await;
    let (_, settled) = outcomes(&mut responses).await;
    let (id, uetr) = (payment.id(&NETWORK).to_string(), payment.header.uetr.to_string());
    for name in [&id, &uetr] {
        let status = client.status(name).await.unwrap();
        assert_eq!((&status.id, &status.uetr, status.status()), (&id, &uetr, SETTLED));
        assert_eq!((status.sequence, status.time.len()), (Some(settled.sequences[0]), 24));
    }
    let proof: tally_proof::Proof =
        serde_json::from_slice(&client.proof(&id, &["ALPHDEFF".to_owned()]).await.unwrap()).unwrap();
    assert_eq!(proof.transaction.id(), Some(payment.id(&NETWORK)));
    let receipt: serde_json::Value = serde_json::from_slice(&client.receipt(&uetr).await.unwrap()).unwrap();
    assert!(receipt.is_object());
    let balance = client.balance("ALPHDEFF", "account-1").await.unwrap();
    assert_eq!((balance.account, balance.asset.as_str(), balance.balance.as_str()), (1, "EUR", "100002.50"));
    assert_eq!((balance.institution.as_str(), balance.minor_units), ("ALPHDEFF", 10_000_250));
    for (answer, status, code) in [
        (client.status(&key(1).public_key().to_string()).await.map(drop), Code::NotFound, "not-found"),
        (client.status("x").await.map(drop), Code::InvalidArgument, "FF01"),
        (client.balance("ALPHDEFF", "none").await.map(drop), Code::NotFound, "AC01"),
        (client.balance("CENTDEFF", "own:EUR").await.map(drop), Code::PermissionDenied, "forbidden"),
    ] {
        let Err(ClientError::Refused(refused)) = answer else { panic!("{answer:?}") };
        assert_eq!((refused.status, refused.code.as_str()), (status, code));
    }
}
