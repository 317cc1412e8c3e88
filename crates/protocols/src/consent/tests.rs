use super::*;
use tally_contracts::bond::Terms;
use tally_contracts::{Scheme, SigningKey};

/// What is wrong with a purchase.
type Change = Box<dyn Fn(&mut Purchase)>;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn name(organisation: &str) -> Name {
    Name::new(organisation, "London", "GB").unwrap()
}

fn party(organisation: &str) -> Party {
    let key =
        SigningKey::from_secret(Scheme::Ed25519, tally_crypto::hash(organisation.as_bytes()).as_bytes());
    Party { name: name(organisation), key: key.unwrap().public_key() }
}

fn certified(name: &Name) -> Option<Party> {
    Some(party(name.organisation()))
}

fn usd(text: &str) -> Amount {
    format!("{text} USD").parse().unwrap()
}

fn rule() -> PurchaseRule {
    PurchaseRule {
        issuer: name("Bank"),
        cash_of: name("Central"),
        sellers: Some(vec![name("Dealer")]),
        highest_price: 995_000_000,
        latest_maturity: LATER,
        per_deal: usd("1000.00"),
        per_day: usd("1500.00"),
    }
}

fn purchase() -> Purchase {
    Purchase {
        seller: party("Dealer"),
        terms: Terms {
            isin: "XS0000000009".parse().unwrap(),
            issuer: party("Bank"),
            agent: party("Bank"),
            maturity: LATER,
        },
        nominal: usd("1000.00"),
        price: usd("995.00"),
        cash_of: party("Central"),
    }
}

fn judge(policy: &Policy, purchase: Purchase, used: u128) -> Result<Option<Use>, String> {
    policy.judge(&Proposal::Purchase(purchase), NOW, certified, |_| used)
}

#[test]
fn nothing_is_agreed_to_that_is_not_allowed() {
    let nothing = Policy::default();
    assert!(judge(&nothing, purchase(), 0).unwrap_err().contains("no rule"));
    let redemption =
        Proposal::Redemption { holder: party("Dealer"), due: usd("1.00"), cash_of: party("Central") };
    assert!(nothing.judge(&redemption, NOW, certified, |_| 0).is_err());
    let register = Proposal::Register { issuer: party("Bank") };
    assert!(nothing.judge(&register, NOW, certified, |_| 0).is_err());
    let allowing =
        Policy { repay_in: vec![name("Central")], registers_of: vec![name("Bank")], ..Policy::default() };
    assert_eq!(allowing.judge(&redemption, NOW, certified, |_| 0), Ok(None));
    assert_eq!(allowing.judge(&register, NOW, certified, |_| 0), Ok(None));
    for proposal in [redemption, register, Proposal::Purchase(purchase())] {
        let told = Policy::refusal(&party("Buyer"), &proposal).to_string();
        assert!(told.contains("consent"), "{told}");
    }
}

#[test]
fn a_purchase_keeps_to_every_limit_of_its_rule() {
    let policy = Policy { purchases: vec![rule()], ..Policy::default() };
    let used = Use { rule: rule().key(), quantity: 99_500 };
    assert_eq!(judge(&policy, purchase(), 50_500), Ok(Some(used)));
    let forged = |organisation: &str| Party { key: party("Attacker").key, ..party(organisation) };
    let cases: [(&str, Change); 9] = [
        ("is none of its sellers", Box::new(|deal| deal.seller = party("Other"))),
        ("above its highest price", Box::new(|deal| deal.price = usd("995.01"))),
        ("in another currency", Box::new(|deal| deal.nominal = "1000.00 EUR".parse().unwrap())),
        (
            "latest maturity",
            Box::new(|deal| deal.terms.maturity = Timestamp::from_millis(LATER.as_millis() + 1)),
        ),
        ("is due", Box::new(|deal| deal.terms.maturity = NOW)),
        (
            "for one offer",
            Box::new(|deal| {
                deal.nominal = usd("2000.00");
                deal.price = usd("1000.01");
            }),
        ),
        ("no rule", Box::new(|deal| deal.terms.issuer = party("Other"))),
        // The name of the issuer, and of the central bank, with the attacker's key.
        ("no rule", Box::new(move |deal| deal.terms.issuer = forged("Bank"))),
        ("no rule", Box::new(move |deal| deal.cash_of = forged("Central"))),
    ];
    for (reason, change) in cases {
        let mut deal = purchase();
        change(&mut deal);
        let refused = judge(&policy, deal, 0).unwrap_err();
        assert!(refused.contains(reason), "{refused} instead of {reason}");
    }
    assert!(judge(&policy, purchase(), 50_501).unwrap_err().contains("24 hours"));
    assert!(judge(&policy, purchase(), u128::from(u64::MAX)).is_err());
}
