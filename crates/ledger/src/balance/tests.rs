use super::*;
use crate::id::{AccountNumber, NetworkId};
use crate::network::{Asset, AssetKind, Participant, SignaturePolicy};
use proptest::prelude::*;

const EUR: AssetId = AssetId(0);
const BOND: AssetId = AssetId(1);
const CENTRAL: ParticipantId = ParticipantId(0);
const DEPOSITORY: ParticipantId = ParticipantId(1);
const A: ParticipantId = ParticipantId(2);
const B: ParticipantId = ParticipantId(3);

fn network() -> Network {
    let participant = |bic: &str| Participant {
        bic: bic.into(),
        name: bic.into(),
        key: bytemuck::Zeroable::zeroed(),
        settlement_floors: Vec::new(),
    };
    let asset = |code: &str, kind, settled_at| Asset {
        code: code.into(),
        kind,
        exponent: 2,
        settled_at,
        largest_payment: Amount::MAX_LEG,
    };
    Network {
        id: NetworkId(1),
        participants: ["CENTDEFF", "DEPODEFF", "BANKDEFA", "BANKDEFB"].map(participant).to_vec(),
        assets: vec![
            asset("EUR", AssetKind::Currency, CENTRAL),
            asset("DE0001102580", AssetKind::Security, DEPOSITORY),
        ],
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 60_000,
    }
}

fn leg(participant: ParticipantId, asset: AssetId, account: AccountNumber, amount: i64) -> Leg {
    Leg { participant, asset, account, amount: Amount(amount) }
}

fn customer_payment(amount: i64) -> Vec<Leg> {
    vec![
        leg(A, EUR, AccountNumber(1), -amount),
        leg(CENTRAL, EUR, AccountNumber::settlement(EUR, A), -amount),
        leg(CENTRAL, EUR, AccountNumber::settlement(EUR, B), amount),
        leg(B, EUR, AccountNumber(1), amount),
    ]
}

fn delivery_versus_payment() -> Vec<Leg> {
    let mut legs = customer_payment(1_000);
    legs.extend([
        leg(B, BOND, AccountNumber(2), -10),
        leg(DEPOSITORY, BOND, AccountNumber::settlement(BOND, B), -10),
        leg(DEPOSITORY, BOND, AccountNumber::settlement(BOND, A), 10),
        leg(A, BOND, AccountNumber(2), 10),
    ]);
    legs
}

#[test]
fn what_balances_is_accepted() {
    let network = network();
    let inside = [leg(A, EUR, AccountNumber(1), -5), leg(A, EUR, AccountNumber(2), 5)];
    assert_eq!(check(&network, Kind::Transfer, &inside), Ok(()));
    assert_eq!(check(&network, Kind::Transfer, &customer_payment(5)), Ok(()));
    assert_eq!(check(&network, Kind::Transfer, &delivery_versus_payment()), Ok(()));
    let issue = [leg(A, EUR, AccountNumber::issuance(EUR), -5), leg(A, EUR, AccountNumber(2), 5)];
    assert_eq!(check(&network, Kind::Issue, &issue), Ok(()));
    let redeem = [leg(A, EUR, AccountNumber::issuance(EUR), 5), leg(A, EUR, AccountNumber(2), -5)];
    assert_eq!(check(&network, Kind::Redeem, &redeem), Ok(()));
}

#[test]
fn each_fault_has_its_refusal() {
    let network = network();
    let inside = |a: i64, b: i64| vec![leg(A, EUR, AccountNumber(1), a), leg(A, EUR, AccountNumber(2), b)];
    let cases: Vec<(Kind, Vec<Leg>, Refusal)> = vec![
        (Kind::Transfer, vec![], Refusal::TooFewLegs),
        (Kind::Transfer, inside(-5, 5)[..1].to_vec(), Refusal::TooFewLegs),
        (Kind::Transfer, (0..31).map(|i| leg(A, EUR, AccountNumber(i), 1)).collect(), Refusal::TooManyLegs),
        (Kind::Transfer, vec![leg(A, EUR, AccountNumber(1), -5); 2], Refusal::Malformed),
        (Kind::Transfer, inside(-5, 4), Refusal::Unbalanced),
        (Kind::Transfer, inside(0, 0), Refusal::ZeroAmount),
        (Kind::Transfer, inside(i64::MIN, i64::MAX), Refusal::AmountOutOfRange),
        (Kind::Transfer, inside(i64::MIN, i64::MIN), Refusal::AmountOutOfRange),
        (
            Kind::Transfer,
            vec![leg(ParticipantId(9), EUR, AccountNumber(1), -5), leg(A, EUR, AccountNumber(1), 5)],
            Refusal::UnknownParticipant,
        ),
        (
            Kind::Transfer,
            vec![leg(A, AssetId(9), AccountNumber(1), -5), leg(A, AssetId(9), AccountNumber(2), 5)],
            Refusal::UnknownAsset,
        ),
        (
            Kind::Transfer,
            vec![leg(A, EUR, AccountNumber::issuance(EUR), -5), leg(A, EUR, AccountNumber(2), 5)],
            Refusal::NotIssuer,
        ),
        (
            Kind::Issue,
            vec![leg(A, EUR, AccountNumber::issuance(EUR), 5), leg(A, EUR, AccountNumber(2), -5)],
            Refusal::NotIssuer,
        ),
        (Kind::Issue, inside(-5, 5), Refusal::NotIssuer),
        (
            Kind::Transfer,
            vec![leg(A, EUR, AccountNumber::settlement(EUR, B), -5), leg(A, EUR, AccountNumber(2), 5)],
            Refusal::UnknownAccount,
        ),
        // A customer of A pays one of B and the central bank is left out, or moves the wrong way.
        (
            Kind::Transfer,
            vec![leg(A, EUR, AccountNumber(1), -5), leg(B, EUR, AccountNumber(1), 5)],
            Refusal::Unbalanced,
        ),
        (Kind::Account, inside(-5, 5), Refusal::Malformed),
    ];
    for (kind, legs, refusal) in cases {
        assert_eq!(check(&network, kind, &legs), Err(refusal), "{legs:?}");
    }
    let mut wrong_way = customer_payment(5);
    wrong_way[1].amount = Amount(5);
    wrong_way[2].amount = Amount(-5);
    assert_eq!(check(&network, Kind::Transfer, &wrong_way), Err(Refusal::Unbalanced));
}

proptest! {
    #[test]
    fn no_single_changed_amount_goes_unseen(index in 0usize..8, by in 1i64..1000) {
        let mut legs = delivery_versus_payment();
        legs[index].amount = Amount(legs[index].amount.0 + by);
        prop_assert!(check(&network(), Kind::Transfer, &legs).is_err());
    }

    #[test]
    fn the_short_way_agrees_with_the_long(a in -3i64..3, b in -3i64..3, x in 0u32..3, y in 0u32..3, p in 0u16..6, asset in 0u16..3, kind in 1u8..4) {
        let legs = [
            leg(ParticipantId(p), AssetId(asset), AccountNumber(x), a),
            leg(ParticipantId(p), AssetId(asset), AccountNumber(y), b),
        ];
        let kind = Kind::from_number(kind).unwrap();
        prop_assert_eq!(check(&network(), kind, &legs), check_any(&network(), kind, &legs));
    }
}
