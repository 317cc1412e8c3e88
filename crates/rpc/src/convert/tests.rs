use serde_json::json;

use super::*;
use crate::types::{FlowQuery, FlowState, Outcome, SortBy, StartFlow, StateStatus, VaultQuery};
use crate::wire;

#[test]
fn every_refusal_crosses_the_wire_whole() {
    for &code in RefusalCode::ALL {
        let refusal = Refusal::new(code, "reason with é and \n");
        let status = status(refusal.clone());
        assert_eq!(status.code(), code.grpc());
        assert_eq!(answered(&status), Answered::Refused(refusal));
        assert_eq!(RefusalCode::from_words(code.as_str()), Some(code));
    }
    let plain = tonic::Status::not_found("a proxy");
    assert_eq!(answered(&plain), Answered::Other { code: "NotFound".into(), message: "a proxy".into() });
    let broken =
        tonic::Status::with_details(tonic::Code::Aborted, "x", bytes::Bytes::from_static(b"\xff\xff"));
    assert!(matches!(answered(&broken), Answered::Other { .. }));
}

#[test]
fn a_start_has_a_name_an_object_and_a_short_id() {
    let request = |flow: &str, arguments: &str, id: &str| {
        StartFlow::try_from(wire::StartFlowRequest {
            flow: flow.into(),
            arguments_json: arguments.into(),
            request_id: id.into(),
        })
        .map_err(|refusal| refusal.code)
    };
    let start = request("Pay", "{\"amount\": 18446744073709551615}", "r-1").unwrap();
    assert_eq!(start.arguments["amount"], json!(u64::MAX));
    assert_eq!(wire::StartFlowRequest::from(&start).arguments_json, "{\"amount\":18446744073709551615}");
    assert_eq!(request("Pay", "", "").unwrap().request_id, None);
    for arguments in ["[]", "1", "{", "{} {}", "null", &"[".repeat(100_000), "{\"a\":\"\u{0}\"}"] {
        assert_eq!(request("Pay", arguments, ""), Err(RefusalCode::ArgumentsInvalid), "{arguments:.10}");
    }
    assert_eq!(request("", "{}", ""), Err(RefusalCode::RequestInvalid));
    assert_eq!(request(&"x".repeat(TEXT_LIMIT + 1), "{}", ""), Err(RefusalCode::RequestInvalid));
    for id in ["a b", "\n", "é", &"x".repeat(REQUEST_ID_LIMIT + 1)] {
        assert_eq!(request("Pay", "{}", id), Err(RefusalCode::RequestInvalid), "{id}");
    }
}

#[test]
fn queries_cross_the_wire_whole() {
    let vault = VaultQuery {
        status: StateStatus::Any,
        contract: Some("cash".into()),
        kind: Some("cash".into()),
        participant: Some("O=A, L=London, C=GB".into()),
        owner: Some("O=A, L=London, C=GB".into()),
        asset: Some("USD@O=Bank, L=London, C=GB".into()),
        quantity_from: Some(1),
        quantity_to: Some(u64::MAX),
        recorded_from_ms: Some(1),
        recorded_until_ms: Some(2),
        linear_id: Some("00".into()),
        notary: Some("O=N, L=London, C=GB".into()),
        references: vec!["00:1".into()],
        sort_by: SortBy::Quantity,
        descending: true,
        page_size: 7,
        cursor: Some("c".into()),
    };
    assert_eq!(VaultQuery::try_from(wire::QueryVaultRequest::from(&vault)), Ok(vault));
    let all = VaultQuery { page_size: PAGE_DEFAULT, ..VaultQuery::default() };
    assert_eq!(VaultQuery::try_from(wire::QueryVaultRequest::default()), Ok(all));
    let flows = FlowQuery {
        states: vec![FlowState::Held, FlowState::Running],
        flow: Some("Pay".into()),
        page_size: PAGE_LIMIT,
        cursor: Some("c".into()),
    };
    assert_eq!(FlowQuery::try_from(wire::ListFlowsRequest::from(&flows)), Ok(flows));
}

#[test]
fn queries_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut wire::QueryVaultRequest)| {
        let mut request = wire::QueryVaultRequest::default();
        change(&mut request);
        VaultQuery::try_from(request).map_err(|refusal| refusal.code) == Err(RefusalCode::RequestInvalid)
    };
    assert!(refused(|query| query.status = 9));
    assert!(refused(|query| query.sort_by = -1));
    assert!(refused(|query| query.page_size = PAGE_LIMIT + 1));
    assert!(refused(|query| query.contract = Some(String::new())));
    assert!(refused(|query| query.cursor = "x".repeat(TEXT_LIMIT + 1)));
    assert!(refused(|query| query.references = vec!["00:1".into(); REFERENCES_LIMIT + 1]));
    assert!(refused(|query| (query.quantity_from, query.quantity_to) = (Some(2), Some(1))));
    assert!(refused(|query| (query.recorded_from_ms, query.recorded_until_ms) = (Some(2), Some(2))));
    let flows = wire::ListFlowsRequest { states: vec![0], ..Default::default() };
    assert!(FlowQuery::try_from(flows).is_err());
}

#[test]
fn answers_that_lack_something_are_not_understood() {
    assert!(Outcome::try_from(wire::Outcome { result: None }).is_err());
    let broken = wire::outcome::Result::CompletedJson("{".into());
    assert_eq!(
        Outcome::try_from(wire::Outcome { result: Some(broken) }).map_err(|error| error.field),
        Err("completed_json")
    );
    assert!(snapshot(wire::VaultEvent::default()).is_err());
    assert!(update(wire::VaultEvent::default()).is_err());
}
