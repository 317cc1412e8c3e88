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
        id: NetworkId([1; 32]),
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

/// The rule as the design states it, without regard to speed or to which refusal it is.
fn obeys(network: &Network, kind: Kind, legs: &[Leg]) -> bool {
    let form = legs.iter().enumerate().all(|(at, leg)| {
        let Some(asset) = network.assets.get(leg.asset.index()) else { return false };
        let role = match leg.account.role() {
            AccountRole::Customer => true,
            AccountRole::Issuance(of) | AccountRole::Own(of) => of == leg.asset,
            AccountRole::Settlement(of, holder) => {
                of == leg.asset
                    && leg.participant == asset.settled_at
                    && holder != asset.settled_at
                    && holder.index() < network.participants.len()
            }
        };
        let again = legs[..at].iter().any(|o| (o.participant, o.account) == (leg.participant, leg.account));
        role && !again && leg.amount.0 != 0 && leg.participant.index() < network.participants.len()
    });
    let issued: Vec<i64> = legs
        .iter()
        .filter(|leg| matches!(leg.account.role(), AccountRole::Issuance(_)))
        .map(|leg| leg.amount.0.signum())
        .collect();
    let issuance = match kind {
        Kind::Transfer => issued.is_empty(),
        Kind::Issue => !issued.is_empty() && issued.iter().all(|sign| *sign < 0),
        Kind::Redeem => !issued.is_empty() && issued.iter().all(|sign| *sign > 0),
        Kind::Account => false,
    };
    let sum = |of: &dyn Fn(&Leg) -> bool| -> i64 {
        legs.iter().filter(|leg| of(leg)).map(|leg| leg.amount.0).sum()
    };
    let balanced = (0u16..4).map(ParticipantId).all(|participant| {
        (0u16..).map(AssetId).zip(&network.assets).all(|(asset, properties)| {
            let owed = sum(&|leg| leg.participant == participant && leg.asset == asset);
            let settled = sum(&|leg| leg.account == AccountNumber::settlement(asset, participant));
            owed == if participant == properties.settled_at { 0 } else { settled }
        })
    });
    legs.len() >= 2 && form && issuance && balanced
}

fn account() -> impl Strategy<Value = AccountNumber> {
    let asset = (0u16..2).prop_map(AssetId);
    prop_oneof![
        3 => (0u32..2).prop_map(AccountNumber),
        1 => asset.clone().prop_map(AccountNumber::issuance),
        1 => asset.clone().prop_map(AccountNumber::own),
        3 => (asset, 0u16..5).prop_map(|(asset, p)| AccountNumber::settlement(asset, ParticipantId(p))),
    ]
}

fn some_leg() -> impl Strategy<Value = Leg> {
    let amount = prop_oneof![Just(-1i64), Just(1), Just(2), Just(0)];
    (0u16..5, 0u16..3, account(), amount).prop_map(|(participant, asset, account, amount)| {
        leg(ParticipantId(participant), AssetId(asset), account, amount)
    })
}

/// Payments between accounts of any institutions, put together by their settlement paths.
fn paid() -> impl Strategy<Value = Vec<Leg>> {
    let one = (0u16..4, 0u16..4, 0u16..2, account(), account(), 1i64..4).prop_map(
        |(from, to, asset, a, b, amount)| {
            let (network, asset) = (network(), AssetId(asset));
            let settled_at = network.assets[asset.index()].settled_at;
            let (from, to) = (ParticipantId(from), ParticipantId(to));
            let mut legs = vec![leg(from, asset, a, -amount), leg(to, asset, b, amount)];
            for (holder, sign) in [(from, -1), (to, 1)] {
                if from != to && holder != settled_at {
                    legs.push(leg(
                        settled_at,
                        asset,
                        AccountNumber::settlement(asset, holder),
                        sign * amount,
                    ));
                }
            }
            legs
        },
    );
    prop::collection::vec(one, 1..3).prop_map(|all| all.into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn the_rule_is_the_one_that_the_design_states(
        paid in paid(), more in prop::collection::vec(some_leg(), 0..2), only_noise in 0u8..4, noise in prop::collection::vec(some_leg(), 0..5),
        kind in 1u8..4,
    ) {
        let legs = if only_noise == 0 { noise } else { [paid, more].concat() };
        let (network, kind) = (network(), Kind::from_number(kind).unwrap());
        prop_assert_eq!(check(&network, kind, &legs).is_ok(), obeys(&network, kind, &legs), "{:?} {:?}", kind, legs);
    }
}
