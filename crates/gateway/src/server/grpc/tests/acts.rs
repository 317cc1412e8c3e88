//! Administrative acts on a stream are recorded once each, however often they are tried.

use super::support::{Bench, EUR, NETWORK, batch, id, key};
use super::{SETTLED, outcomes, refusal, statuses};
use crate::access::{Act, Role};
use std::sync::atomic::Ordering;
use tally_ledger::transaction::Kind;
use tally_ledger::{Amount, TransactionId};
use tally_settlement::path;

const ROLES: [Role; 3] = [Role::Submit, Role::Read, Role::Approve];

fn issued(bench: &Bench) -> Vec<TransactionId> {
    let issue = |act: Act| match act {
        Act::Issuance { transaction, .. } => Some(transaction),
        _ => None,
    };
    bench.acts().into_iter().filter_map(issue).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_act_that_is_tried_again_is_one_line_of_the_audit_log() {
    let mut bench = Bench::with(|_| (), |alice| alice.roles.extend(ROLES));
    let issue = |bench: &mut Bench| bench.signed(Kind::Issue, path::issue(id(0), EUR, Amount(1)), &key(2));
    let (first, second) = (issue(&mut bench), issue(&mut bench));
    bench.desk.busy.store(5, Ordering::SeqCst);
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    requests.send(1, &batch([first.clone(), second.clone()])).await;
    assert_eq!(statuses(&outcomes(&mut responses).await.1), [SETTLED, SETTLED]);
    assert_eq!(bench.desk.busy.load(Ordering::SeqCst), 0, "it was tried again");
    assert_eq!(issued(&bench), [first.id(&NETWORK), second.id(&NETWORK)]);
    // The same sent again is the same act; another one is another.
    let third = issue(&mut bench);
    requests.send(2, &batch([first.clone(), third.clone(), third.clone()])).await;
    outcomes(&mut responses).await;
    assert_eq!(issued(&bench), [first.id(&NETWORK), second.id(&NETWORK), third.id(&NETWORK)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_act_that_was_refused_because_of_others_is_recorded_when_it_comes_again() {
    let mut bench =
        Bench::with(|settings| settings.http.answer_timeout_ms = 100, |alice| alice.roles.extend(ROLES));
    let issue = bench.signed(Kind::Issue, path::issue(id(0), EUR, Amount(1)), &key(2));
    bench.desk.busy.store(usize::MAX, Ordering::SeqCst);
    let (requests, mut responses) = bench.client().await.submit().await.unwrap();
    for tag in 0..3 {
        requests.send(tag, &batch([issue.clone()])).await;
        refusal(&mut responses).await;
    }
    assert_eq!(issued(&bench), [issue.id(&NETWORK)]);
}
