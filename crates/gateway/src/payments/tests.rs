use super::*;
use crate::access::tests::user_of;
use crate::settings::{Institution, ParticipantKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tally_crypto::SigningKey;
use tally_iso20022::{Coded, EntryDetails, Party};
use tally_ledger::{Asset, NetworkId, Participant, SignaturePolicy};
use tally_settlement::clerk::Finality;
use tally_settlement::engine::Outcome;

/// Accounts by participant and alias; each is owned by the key of its alias.
struct Known {
    accounts: BTreeMap<(u16, &'static str), u32>,
    /// How often payments were searched for, and accounts looked up, by participant.
    searches: Cell<usize>,
    /// How often returns were.
    returns: Cell<usize>,
    /// What sent [`PAID`] back before.
    before: Option<Returned>,
    looks: RefCell<Vec<u16>>,
}

fn key(name: &str) -> PublicKey {
    SigningKey::from_seed(*tally_crypto::hash(name.as_bytes()).as_bytes()).public_key()
}

impl Accounts for Known {
    fn by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        self.looks.borrow_mut().push(participant.0);
        let number = self.accounts.iter().find(|((of, name), _)| *of == participant.0 && *name == alias)?.1;
        Some(AccountId { participant, number: AccountNumber(*number) })
    }
    fn owner(&self, account: AccountId) -> Option<PublicKey> {
        let mut known = self.accounts.iter();
        let found =
            known.find(|((of, _), number)| *of == account.participant.0 && **number == account.number.0)?;
        Some(key(found.0.1))
    }
    fn settled(&self, _: &User, uetr: Uetr) -> Result<Option<Settled>, Reason> {
        self.searches.set(self.searches.get() + 1);
        let legs = match uetr {
            PAID => {
                Some(path::payment(&network(), self.account(1), self.account(2), AssetId(0), Amount(500)))
            }
            CHANGED => Some(vec![leg(1, AccountNumber(0), -500), leg(2, AccountNumber(0), 400)]),
            _ => None,
        };
        Ok(legs.map(|legs| Settled { legs, at: PAID_AT }))
    }
    fn returned(&self, reference: Reference, since: Timestamp) -> Result<Option<Returned>, Reason> {
        // Only what the user may send back is looked for, and no further than to the payment.
        assert_eq!((reference.participant, since), (ParticipantId(2), PAID_AT));
        self.returns.set(self.returns.get() + 1);
        Ok(self.before.clone())
    }
}

impl Known {
    fn account(&self, participant: u16) -> AccountId {
        AccountId { participant: ParticipantId(participant), number: AccountNumber(0) }
    }
}

/// A payment of 5.00 from Alpha's first customer to Beta's.
const PAID: Uetr = Uetr([9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, 9, 9, 9, 9, 9, 9]);
const PAID_AT: Timestamp = Timestamp(1_000);
/// No payment from one account to one other.
const CHANGED: Uetr = Uetr([8, 8, 8, 8, 8, 8, 0x48, 8, 0x88, 8, 8, 8, 8, 8, 8, 8]);

fn settings() -> Settings {
    let institution = |unidentified: Option<&str>| Institution {
        kind: ParticipantKind::Bank,
        unidentified_account: unidentified.map(str::to_owned),
    };
    Settings {
        institutions: vec![institution(None), institution(Some("lost")), institution(None)],
        ..Settings::default()
    }
}

fn network() -> Network {
    let participant = |bic: &str| Participant {
        bic: bic.to_owned(),
        name: "O=X,C=DE".to_owned(),
        key: key(bic),
        settlement_floors: Vec::new(),
    };
    Network {
        id: NetworkId([7; 32]),
        participants: ["TSCBDEFF", "ALPHDEFF", "BETAFRPP"].map(participant).into(),
        assets: vec![Asset {
            code: "EUR".to_owned(),
            kind: AssetKind::Currency,
            exponent: 2,
            settled_at: ParticipantId(0),
            largest_payment: Amount(100_000),
        }],
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 1000,
    }
}

fn known() -> Known {
    let accounts = BTreeMap::from([
        ((1, "DE20999000010000000001"), 0),
        ((1, "lost"), 1),
        ((2, "FR7699999000010000000000115"), 0),
        ((2, "bob"), 0),
    ]);
    Known {
        accounts,
        searches: Cell::default(),
        returns: Cell::default(),
        before: None,
        looks: RefCell::default(),
    }
}

fn orders(message: &str) -> Vec<Result<Order, Reason>> {
    orders_of("", message).0
}

/// What a user of that institution may make of a message; of the operator's, where none is named.
fn orders_of(institution: &str, message: &str) -> (Vec<Result<Order, Reason>>, Known) {
    orders_with(&references(), institution, message)
}

fn orders_with(
    references: &References,
    institution: &str,
    message: &str,
) -> (Vec<Result<Order, Reason>>, Known) {
    let (settings, network, accounts, user) = (settings(), network(), known(), user_of(institution));
    let gateway =
        Gateway { network: &network, settings: &settings, accounts: &accounts, user: &user, references };
    let message = gateway.read(message.as_bytes()).unwrap();
    let orders = gateway.instructed(&message, Date::parse("2025-03-03").unwrap());
    (orders, accounts)
}

/// The same for all tests.
fn references() -> References {
    static REFERENCES: LazyLock<References> = LazyLock::new(|| References::generate().unwrap());
    REFERENCES.clone()
}

const AGENT_A: &str = "<FinInstnId><BICFI>ALPHDEFF</BICFI></FinInstnId>";
const AGENT_B: &str = "<FinInstnId><BICFI>BETAFRPPXXX</BICFI></FinInstnId>";

fn pacs008(debtor: &str, creditor: &str) -> String {
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08'><FIToFICstmrCdtTrf><GrpHdr><MsgId>M</MsgId>\
         <CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs><SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>\
         <CdtTrfTxInf><PmtId><EndToEndId>E</EndToEndId></PmtId><IntrBkSttlmAmt Ccy='EUR'>5.00</IntrBkSttlmAmt>\
         <IntrBkSttlmDt>2025-03-03</IntrBkSttlmDt><ChrgBr>SLEV</ChrgBr><Dbtr><Nm>D</Nm></Dbtr>{debtor}\
         <CdtrAgt>{AGENT_B}</CdtrAgt><Cdtr><Nm>C</Nm></Cdtr>{creditor}</CdtTrfTxInf></FIToFICstmrCdtTrf></Document>"
    )
}

fn account(tag: &str, id: &str) -> String {
    format!("<{tag}><Id>{id}</Id></{tag}>")
}

const BOB: &str = "<IBAN>FR7699999000010000000000115</IBAN>";

fn leg(participant: u16, account: AccountNumber, amount: i64) -> Leg {
    Leg { participant: ParticipantId(participant), asset: AssetId(0), account, amount: Amount(amount) }
}

#[test]
fn a_payment_between_banks_has_the_central_banks_legs() {
    let debtor =
        account("DbtrAcct", "<IBAN>DE20999000010000000001</IBAN>") + &format!("<DbtrAgt>{AGENT_A}</DbtrAgt>");
    let order = orders(&pacs008(&debtor, &account("CdtrAcct", BOB))).remove(0).unwrap();
    let settlement = |holder| AccountNumber::settlement(AssetId(0), ParticipantId(holder));
    let wanted = [
        leg(1, AccountNumber(0), -500),
        leg(0, settlement(1), -500),
        leg(0, settlement(2), 500),
        leg(2, AccountNumber(0), 500),
    ];
    assert_eq!(order.legs, wanted);
    assert_eq!(order.signers, [key("DE20999000010000000001")]);
}

#[test]
fn payments_without_accounts_need_a_place() {
    let agent = format!("<DbtrAgt>{AGENT_A}</DbtrAgt>");
    let order = orders(&pacs008(&agent, &account("CdtrAcct", BOB))).remove(0).unwrap();
    assert_eq!(order.legs[0], leg(1, AccountNumber(1), -500), "the debtor's bank has a place for them");
    assert_eq!(order.signers, [key("lost")]);
    let refused = orders(&pacs008(&agent, "")).remove(0).unwrap_err();
    assert_eq!(refused.code, StatusReason::AC03, "the creditor's has none");
}

#[test]
fn accounts_go_by_other_names() {
    let agent = format!("<DbtrAgt>{AGENT_A}</DbtrAgt>");
    let order =
        orders(&pacs008(&agent, &account("CdtrAcct", "<Othr><Id>bob</Id></Othr>"))).remove(0).unwrap();
    assert_eq!(order.legs[3].account, AccountNumber(0));
    let refused =
        orders(&pacs008(&agent, &account("CdtrAcct", "<Othr><Id>bo</Id></Othr>"))).remove(0).unwrap_err();
    assert_eq!(refused.code, StatusReason::AC01);
}

#[test]
fn institutions_pay_from_their_own_funds() {
    let message = format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:pacs.009.001.08'><FICdtTrf><GrpHdr><MsgId>M</MsgId>\
         <CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs><SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>\
         <CdtTrfTxInf><PmtId><EndToEndId>E</EndToEndId></PmtId><IntrBkSttlmAmt Ccy='EUR'>5.00</IntrBkSttlmAmt>\
         <IntrBkSttlmDt>2025-03-03</IntrBkSttlmDt><Dbtr>{AGENT_A}</Dbtr><Cdtr>{AGENT_B}</Cdtr></CdtTrfTxInf></FICdtTrf></Document>"
    );
    let order = orders(&message).remove(0).unwrap();
    assert_eq!(order.legs[0], leg(1, AccountNumber::own(AssetId(0)), -500));
    assert_eq!(order.legs[3], leg(2, AccountNumber::own(AssetId(0)), 500));
    assert_eq!(order.signers, [key("ALPHDEFF")]);
    let stranger = message.replace("BETAFRPPXXX", "NOWHDEFF");
    assert_eq!(orders(&stranger).remove(0).unwrap_err().code, StatusReason::RC04);
}

#[test]
fn a_signature_commits_to_what_the_sender_wrote() {
    let agent = format!("<DbtrAgt>{AGENT_A}</DbtrAgt>");
    let message = pacs008(&agent, &account("CdtrAcct", BOB));
    let details = |message: &str| orders(message).remove(0).unwrap().details;
    assert_eq!(details(&message), details(&message));
    let same_account = message.replace(BOB, "<Othr><Id>bob</Id></Othr>");
    for other in [same_account, message.replace("<Nm>C</Nm>", "<Nm>CC</Nm>"), message.replace("5.00", "5.01")]
    {
        assert_ne!(details(&message), details(&other), "{other}");
    }
    let order = orders(&message).remove(0).unwrap();
    let network = network();
    let draft = order.draft(&network, Timestamp(10), [3; 16]);
    assert!(order.is_made_by(&draft));
    // A tenth of the longest validity is left for a clock that is behind.
    assert_eq!(draft.header.expiry, Timestamp(910));
    let mut other = draft.clone();
    other.legs[0].account = AccountNumber(0);
    assert!(!order.is_made_by(&other));
    let mut other = draft;
    other.header.details = Hash::ZERO;
    assert!(!order.is_made_by(&other));
}

fn pacs004(original: &str, amount: &str) -> String {
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:pacs.004.001.09'><PmtRtr><GrpHdr><MsgId>R</MsgId>\
         <CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs><SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>\
         <TxInf><RtrId>R1</RtrId>{original}<RtrdIntrBkSttlmAmt Ccy='EUR'>{amount}</RtrdIntrBkSttlmAmt>\
         <RtrRsnInf><Rsn><Cd>AC04</Cd></Rsn></RtrRsnInf></TxInf></PmtRtr></Document>"
    )
}

#[test]
fn a_payment_goes_back_the_way_it_came() {
    let original = |uetr: Uetr| format!("<OrgnlUETR>{uetr}</OrgnlUETR>");
    let message = pacs004(&original(PAID), "4.99");
    let order = orders(&message).remove(0).unwrap();
    assert_eq!(order.legs[0], leg(2, AccountNumber(0), -499));
    assert_eq!(order.legs[3], leg(1, AccountNumber(0), 499));
    assert_eq!(order.legs.len(), 4);
    let back = references().of_return(Bic::parse("BETAFRPP"), PAID);
    assert_eq!(order.uetr, back, "whatever the message is called, once");
    let read = Instructions::read(message.as_bytes()).unwrap();
    assert!(read.may_be(0, order.uetr) && !read.may_be(0, PAID) && read.stated(0).is_none());
    // What has no UETR of the standard's is called by the network's reference, as in its statements.
    let named = format!("<OrgnlTxId>{}</OrgnlTxId>", codec::to_hex(&PAID.0));
    assert_eq!(orders(&pacs004(&named, "4.99")).remove(0).unwrap().uetr, order.uetr);
    let other = pacs004(&original(PAID), "4.98");
    assert_ne!(orders(&other).remove(0).unwrap().details, order.details);
    let wrong = [
        (original(PAID), "5.01", StatusReason::AM09),
        (original(CHANGED), "1.00", StatusReason::NARR),
        (
            "<OrgnlUETR>0c1b2d3e-4f50-4a61-8b72-93a4b5c6d7e8</OrgnlUETR>".to_owned(),
            "1.00",
            StatusReason::NARR,
        ),
        ("<OrgnlEndToEndId>E</OrgnlEndToEndId>".to_owned(), "1.00", StatusReason::NARR),
        (original(PAID), "1.001", StatusReason::AM12),
    ];
    for (original, amount, code) in wrong {
        let refused = orders(&pacs004(&original, amount)).remove(0).unwrap_err();
        assert_eq!(refused.code, code, "{original} {amount}: {refused:?}");
    }
}

/// A message with so many returns of payments with these references.
fn pacs004_of(originals: &[Uetr], header: &str) -> String {
    let one = pacs004("<OrgnlUETR>X</OrgnlUETR>", "1.00");
    let (head, rest) = one.split_once("<TxInf>").unwrap();
    let (entry, end) = rest.split_once("</TxInf>").unwrap();
    let entries: String = originals
        .iter()
        .map(|uetr| format!("<TxInf>{}</TxInf>", entry.replace('X', &uetr.to_string())))
        .collect();
    let head = head.replace("<NbOfTxs>1<", &format!("<NbOfTxs>{}<", originals.len()));
    let head = head.replace("</SttlmInf>", &format!("</SttlmInf>{header}"));
    format!("{head}{entries}{end}")
}

const UNKNOWN: Uetr = Uetr([7, 7, 7, 7, 7, 7, 0x47, 7, 0x87, 7, 7, 7, 7, 7, 7, 7]);

#[test]
fn a_return_tells_nothing_of_payments_in_which_the_user_has_no_part() {
    // CHANGED and PAID are between Alpha and Beta; Alpha, Beta, and for PAID the central bank have a part.
    let told = |institution: &str, uetr: Uetr, amount: &str, currency: &str| {
        let message = pacs004(&format!("<OrgnlUETR>{uetr}</OrgnlUETR>"), amount);
        let message = message.replace("Ccy='EUR'", &format!("Ccy='{currency}'"));
        let (mut orders, known) = orders_of(institution, &message);
        assert!(known.looks.borrow().is_empty() && known.searches.get() <= 1);
        orders
            .remove(0)
            .map(|order| order.legs.len())
            .map_err(|reason| (reason.code, reason.text.replace(&uetr.to_string(), "REF")))
    };
    let nothing = |institution: &str| told(institution, UNKNOWN, "1.00", "EUR").unwrap_err();
    assert_eq!(nothing("BETAFRPP").0, StatusReason::NARR);
    // The central bank has no part in CHANGED. Right amounts, wrong ones, other currencies: one answer.
    for (amount, currency) in
        [("1.00", "EUR"), ("5.00", "EUR"), ("5.01", "EUR"), ("1.001", "EUR"), ("1.00", "USD")]
    {
        for uetr in [CHANGED, UNKNOWN] {
            assert_eq!(
                told("TSCBDEFF", uetr, amount, currency).unwrap_err(),
                nothing("TSCBDEFF"),
                "{amount} {currency}"
            );
        }
    }
    assert_eq!(nothing("TSCBDEFF").1, nothing("BETAFRPP").1);
    // Who was not paid has no amount told: whatever is asked for, one answer.
    for institution in ["ALPHDEFF", "TSCBDEFF"] {
        for (amount, currency) in [("1.00", "EUR"), ("5.01", "EUR"), ("1.00", "USD")] {
            let (code, text) = told(institution, PAID, amount, currency).unwrap_err();
            assert_eq!(
                (code, text.as_str()),
                (StatusReason::AG01, "user does not act for BETAFRPP"),
                "{amount}"
            );
        }
    }
    // Who was paid sends it back, and is told.
    assert_eq!(told("BETAFRPP", PAID, "5.00", "EUR"), Ok(4));
    assert_eq!(told("BETAFRPP", PAID, "5.01", "EUR").unwrap_err().0, StatusReason::AM09);
    assert_eq!(told("BETAFRPP", PAID, "5.00", "USD").unwrap_err().0, StatusReason::AM03);
}

#[test]
fn a_return_is_searched_for_once_and_only_for_those_who_may_ask() {
    let searches = |institution: &str, message: &str| {
        let (orders, known) = orders_of(institution, message);
        assert!(known.returns.get() <= usize::from(orders.iter().any(Result::is_ok)));
        let codes: Vec<_> =
            orders.into_iter().map(|order| order.map(drop).map_err(|reason| reason.code)).collect();
        (codes, known.searches.get())
    };
    let different = |count: u8| {
        (0..count)
            .map(|n| Uetr([n; 16]))
            .map(|mut uetr| {
                (uetr.0[6], uetr.0[8]) = (0x40, 0x80);
                uetr
            })
            .collect::<Vec<_>>()
    };
    let most = returns::MAX_RETURNS;
    let (codes, count) = searches("BETAFRPP", &pacs004_of(&different(u8::try_from(most).unwrap()), ""));
    assert_eq!((codes.len(), count), (most, most));
    let (codes, count) = searches("BETAFRPP", &pacs004_of(&different(u8::try_from(most + 1).unwrap()), ""));
    assert_eq!((codes[0], count), (Err(StatusReason::AG03), 0), "more than is searched for");
    let (codes, count) = searches("BETAFRPP", &pacs004_of(&[PAID; 10], ""));
    assert_eq!((codes, count), (vec![Ok(()); 10], 1), "one payment, however often it is named");
    // The message says who instructs: nobody else's returns are looked for.
    let by = |bic: &str| {
        pacs004_of(&[PAID], &format!("<InstgAgt><FinInstnId><BICFI>{bic}</BICFI></FinInstnId></InstgAgt>"))
    };
    assert_eq!(searches("BETAFRPP", &by("BETAFRPPXXX")), (vec![Ok(())], 1));
    assert_eq!(searches("BETAFRPP", &by("ALPHDEFF")), (vec![Err(StatusReason::AG01)], 0));
    assert_eq!(searches("ALPHDEFF", &by("BETAFRPP")), (vec![Err(StatusReason::AG01)], 0));
}

#[test]
fn what_went_back_or_may_yet_is_not_sent_back_again() {
    let (settings, network, user, references) = (settings(), network(), user_of("BETAFRPP"), references());
    let message = pacs004(&format!("<OrgnlUETR>{PAID}</OrgnlUETR>"), "4.99");
    let given_back = |before: Option<(Outcome, Vec<Leg>)>, is_copy: bool| {
        let answer = |outcome| Answer { id: Hash::ZERO, uetr: PAID, outcome };
        let before = before.map(|(outcome, legs)| Returned {
            answer: answer(outcome),
            legs,
            text: "it was received before".to_owned(),
        });
        let accounts = Known { before, ..known() };
        let gateway = Gateway {
            network: &network,
            settings: &settings,
            accounts: &accounts,
            user: &user,
            references: &references,
        };
        let Instructions::Returns(message, _) = gateway.read(message.as_bytes()).unwrap() else { panic!() };
        gateway.returns(&message, is_copy, Date::parse("2025-03-03").unwrap()).remove(0)
    };
    let new = given_back(None, false).unwrap();
    assert_eq!((&new.first, given_back(None, true).as_ref()), (&None, Ok(&new)));
    let settled = Outcome::Final(Finality { sequence: 5, timestamp: Timestamp(2_000), verdict: Ok(()) });
    let other = path::payment(&network, known().account(2), known().account(1), AssetId(0), Amount(1));
    for (outcome, legs) in [(settled.clone(), new.legs.clone()), (Outcome::Pending, Vec::new())] {
        let refused = given_back(Some((outcome.clone(), legs.clone())), false).unwrap_err();
        assert_eq!((refused.code, refused.text.as_str()), (StatusReason::AM05, "it was received before"));
        let told = given_back(Some((outcome.clone(), legs)), true).unwrap();
        assert_eq!(told.first.unwrap().outcome, outcome, "a copy is told what became of the first");
    }
    // Of another amount it is no copy, whatever it says.
    assert_eq!(given_back(Some((settled, other)), true).unwrap_err().code, StatusReason::AM05);
}

#[test]
fn nothing_is_looked_up_in_the_books_of_who_does_not_pay_by_the_user() {
    let debtor = |name: &str| {
        account("DbtrAcct", &format!("<IBAN>{name}</IBAN>")) + &format!("<DbtrAgt>{AGENT_A}</DbtrAgt>")
    };
    // An account that there is, one that there is not, and one with wrong check digits.
    for name in ["DE20999000010000000001", "DE90999000010000000002", "DE21999000010000000001"] {
        let (mut orders, known) = orders_of("BETAFRPP", &pacs008(&debtor(name), &account("CdtrAcct", BOB)));
        let refused = orders.remove(0).unwrap_err();
        assert_eq!(
            (refused.code, refused.text.as_str()),
            (StatusReason::AG01, "user does not act for ALPHDEFF")
        );
        assert_eq!(*known.looks.borrow(), [0; 0], "{name}");
    }
    let (orders, known) =
        orders_of("ALPHDEFF", &pacs008(&debtor("DE20999000010000000001"), &account("CdtrAcct", BOB)));
    assert!(orders[0].is_ok() && *known.looks.borrow() == [1, 2]);
}

#[test]
fn a_derived_reference_is_the_institutions_own_and_needs_the_secret() {
    let agent = format!("<DbtrAgt>{AGENT_A}</DbtrAgt>");
    let message = pacs008(&agent, &account("CdtrAcct", BOB));
    let of = |references: &References, institution: &str, message: &str| {
        orders_with(references, institution, message).0.remove(0).unwrap().uetr
    };
    let own = of(&references(), "ALPHDEFF", &message);
    assert_eq!(own, of(&references(), "ALPHDEFF", &message), "sent again");
    assert_eq!(own, of(&references(), "", &message), "by the operator for the same payer");
    assert_ne!(own, of(&References::generate().unwrap(), "ALPHDEFF", &message), "without the secret");
    // What is refused is called by a reference of the asker's own institution, and never by the other's.
    let (settings, network, accounts) = (settings(), network(), known());
    let told = |institution: &str, message: &str| {
        let (user, references) = (user_of(institution), references());
        let gateway = Gateway {
            network: &network,
            settings: &settings,
            accounts: &accounts,
            user: &user,
            references: &references,
        };
        gateway.refused_reference(&gateway.read(message.as_bytes()).unwrap(), 0)
    };
    assert_ne!(told("BETAFRPP", &message), own);
    assert_ne!(told("BETAFRPP", &message), told("TSCBDEFF", &message));
    let back = pacs004(&format!("<OrgnlUETR>{PAID}</OrgnlUETR>"), "1.00");
    assert_ne!(told("ALPHDEFF", &back), of(&references(), "BETAFRPP", &back));
    let stated = message
        .replace("<EndToEndId>E</EndToEndId>", &format!("<EndToEndId>E</EndToEndId><UETR>{PAID}</UETR>"));
    assert_eq!(
        (told("BETAFRPP", &stated), of(&references(), "ALPHDEFF", &stated)),
        (PAID, PAID),
        "the sender's own"
    );
}

#[test]
fn what_was_said_is_told_in_statements() {
    let whole = include_str!("../../../iso20022/src/tests/initiation.xml")
        .replace(
            "</CdtrAcct>",
            "</CdtrAcct><UltmtCdtr><Nm>Ben</Nm></UltmtCdtr><Purp><Prtry>rent</Prtry></Purp>",
        )
        .replace(
            "</Ustrd>",
            "</Ustrd><Strd><RfrdDocInf><Tp><CdOrPrtry><Cd>CINV</Cd></CdOrPrtry></Tp><Nb>7</Nb>\
             <RltdDt>2025-02-01</RltdDt></RfrdDocInf><RfrdDocAmt><RmtdAmt Ccy=\"EUR\">10.25</RmtdAmt></RfrdDocAmt>\
             <CdtrRefInf><Tp><CdOrPrtry><Cd>SCOR</Cd></CdOrPrtry><Issr>ISO</Issr></Tp><Ref>RF18539007547034</Ref></CdtrRefInf>\
             <AddtlRmtInf>with thanks</AddtlRmtInf></Strd>",
        );
    for xml in [whole, pacs008(&format!("<DbtrAgt>{AGENT_A}</DbtrAgt>"), &account("CdtrAcct", BOB))] {
        let Instructions::Payments(message) = Instructions::read(xml.as_bytes()).unwrap() else { panic!() };
        for (position, payment) in message.payments.iter().enumerate() {
            let said = Said::by_payment(&message, position);
            assert_eq!(said.hash(), Said::by_payment(&message, position).hash());
            let told = Said::from_bytes(said.as_bytes().to_vec()).unwrap().told().unwrap();
            // Amount and reference are the ledger's to tell, and the kinds of identifications are not kept.
            let mut wanted = EntryDetails::of(&message, payment, tally_iso20022::CreditDebit::Debit);
            (wanted.amount, wanted.uetr) = (None, None);
            for party in [&mut wanted.debtor, &mut wanted.creditor, &mut wanted.ultimate_debtor] {
                let plain = party.take().map(|party| Party {
                    identification: None,
                    is_person: false,
                    member_id: None,
                    account_currency: None,
                    ..party
                });
                *party = plain.filter(|party| *party != Party::default());
            }
            for agent in [&mut wanted.debtor_agent, &mut wanted.creditor_agent].into_iter().flatten() {
                agent.name = None;
            }
            assert_eq!(told, wanted);
            // Cut off anywhere or changed, it is something else or nothing, and nobody panics.
            for length in 1..said.as_bytes().len() {
                let cut = Said::from_bytes(said.as_bytes()[..length].to_vec()).unwrap();
                assert_ne!(cut.hash(), said.hash());
                assert_eq!(cut.told(), None);
                let mut changed = said.as_bytes().to_vec();
                changed[length] ^= 0x81;
                let changed = Said::from_bytes(changed).unwrap();
                assert_ne!(changed.hash(), said.hash());
                let _ = changed.told();
            }
        }
    }
    assert_eq!(Said::from_bytes(Vec::new()), None);
    assert_eq!(Said::from_bytes(vec![9; 40]), None);

    let returned =
        pacs004(&format!("<OrgnlEndToEndId>E</OrgnlEndToEndId><OrgnlUETR>{PAID}</OrgnlUETR>"), "1.00");
    let order = orders(&returned).remove(0).unwrap();
    let said = order.said.unwrap();
    assert_eq!(said.hash(), order.details);
    let told = said.told().unwrap();
    assert_eq!((told.message_id.as_deref(), told.end_to_end_id.as_deref()), (Some("R"), Some("E")));
    assert_eq!(told.returned.unwrap().reason, Coded::Code("AC04".to_owned()));
}
