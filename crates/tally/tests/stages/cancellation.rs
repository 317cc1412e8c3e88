//! A payment that institutions do not answer is cancelled.

use super::network::{Network, STAGES, eventually};
use super::payments::{BANKS, OPENING, Random, Sent, World, plan_of};
use std::time::Duration;
use tally::client::Client;
use tally_gateway::wire::{OutcomeView, Status};
use tally_iso20022::{CancellationVerdict, Limits};
use tally_ledger::{TransactionBatch, Uetr};
use tally_log::kafka::broker::Setup;

const CUSTOMERS: usize = 2;

/// A camt.056 for the payment of that reference.
fn request(uetr: Uetr) -> String {
    let party =
        |name: &str| format!("<{name}><Agt><FinInstnId><BICFI>ALPHDEFF</BICFI></FinInstnId></Agt></{name}>");
    let reference: String = uetr.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.056.001.08'><FIToFIPmtCxlReq><Assgnmt><Id>A</Id>{}{}\
         <CreDtTm>2025-03-03T10:00:00Z</CreDtTm></Assgnmt><Undrlyg><TxInf><CxlId>C</CxlId>\
         <OrgnlTxId>{reference}</OrgnlTxId></TxInf></Undrlyg></FIToFIPmtCxlReq></Document>",
        party("Assgnr"),
        party("Assgne")
    )
}

#[test]
fn what_is_not_decided_is_cancelled_and_what_is_settled_is_not() {
    let mut network = Network::new(&plan_of(CUSTOMERS), Setup::default());
    network.start_all();
    network.until_ready();
    let world = World::of(&network.layout(), CUSTOMERS, 1);
    let mut random = Random(11);
    let client = network.client();
    let across = (0, CUSTOMERS);
    let first = world.payment(&mut random, across, 100, 3_600_000);
    assert_eq!(submit(&client, &first).status, Status::Settled);
    let settled = world.payment(&mut random, across, 100, 3_600_000);
    assert_eq!(submit(&client, &settled).status, Status::Settled);
    let past = cancel(&client, settled.transaction.header.uetr);
    assert_eq!(past, (CancellationVerdict::Rejected, Some("PTNA".to_owned())));

    // No institution answers: the payment waits, and so does who cancels it.
    let approvers = STAGES.iter().find(|(stage, _)| *stage == "approver").unwrap().1;
    (0..approvers).for_each(|at| network.kill("approver", at));
    let unwanted = world.payment(&mut random, across, 700, 3_600_000);
    let uetr = unwanted.transaction.header.uetr;
    let (payer, canceller) = (client.clone(), client.clone());
    let pays = std::thread::spawn(move || submit(&payer, &unwanted));
    eventually("it is accepted", || client.status(&uetr.to_string()).ok());
    let cancels = std::thread::spawn(move || cancel(&canceller, uetr));
    std::thread::sleep(Duration::from_secs(2));
    (0..approvers).for_each(|at| network.start("approver", at));
    assert_eq!(cancels.join().unwrap(), (CancellationVerdict::Accepted, None));
    let told = pays.join().unwrap();
    assert_eq!(told.reason.map(|reason| reason.code).as_deref(), Some("DS02"));
    assert_eq!(cancel(&client, uetr), (CancellationVerdict::Accepted, None), "it stays cancelled");

    // Nothing of it is left reserved.
    let all = u32::try_from(OPENING - 200).unwrap();
    let rest = world.payment(&mut random, across, all.into(), 3_600_000);
    assert_eq!(submit(&client, &rest).status, Status::Settled);
    let balance = client.account(BANKS[0], "0").unwrap().minor_units;
    assert_eq!(balance, 0);
    network.audit();
}

/// The outcome of a payment, handed in again while there is none: shards may still move between processes.
fn submit(client: &Client, sent: &Sent) -> OutcomeView {
    let mut batch = TransactionBatch::default();
    assert!(batch.push(&sent.transaction));
    eventually("it has an outcome", || {
        let outcome = client.submit(&batch).ok()?.outcomes.remove(0);
        (outcome.status != Status::Pending).then_some(outcome)
    })
}

/// What becomes of a request for cancellation, and why; made again while it is pending: institutions may come back late.
fn cancel(client: &Client, uetr: Uetr) -> (CancellationVerdict, Option<String>) {
    eventually("it is known whether it is cancelled", || {
        let answer = client.cancel(request(uetr).as_bytes()).unwrap();
        let answer = tally_iso20022::parse_resolution(answer.as_bytes(), &Limits::default()).unwrap();
        let answer = &answer.answers[0];
        let code = answer.reason.as_ref().and_then(|reason| reason.code.as_ref());
        let told = (answer.verdict, code.map(|code| code.as_str().to_owned()));
        (told.0 != CancellationVerdict::Pending).then_some(told)
    })
}
