use super::*;
use crate::settings::{Institution, ParticipantKind};
use std::collections::HashMap;
use tally_crypto::SigningKey;
use tally_iso20022::{Coded, EntryDetails, Party};
use tally_ledger::{Asset, NetworkId, Participant, SignaturePolicy};

/// Accounts by participant and alias; each is owned by the key of its alias.
struct Known(HashMap<(u16, &'static str), u32>);

fn key(name: &str) -> PublicKey {
    SigningKey::from_seed(*tally_crypto::hash(name.as_bytes()).as_bytes()).public_key()
}

impl Accounts for Known {
    fn by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        let number = self.0.iter().find(|((of, name), _)| *of == participant.0 && *name == alias)?.1;
        Some(AccountId { participant, number: AccountNumber(*number) })
    }
    fn owner(&self, account: AccountId) -> Option<PublicKey> {
        let mut known = self.0.iter();
        let found =
            known.find(|((of, _), number)| *of == account.participant.0 && **number == account.number.0)?;
        Some(key(found.0.1))
    }
    fn settled(&self, uetr: Uetr) -> Result<Vec<Leg>, Reason> {
        match uetr {
            PAID => Ok(path::payment(&network(), self.account(1), self.account(2), AssetId(0), Amount(500))),
            CHANGED => Ok(vec![leg(1, AccountNumber(0), -500), leg(2, AccountNumber(0), 400)]),
            _ => Err(Reason::new(StatusReason::NARR, format!("no payment {uetr}"))),
        }
    }
}

impl Known {
    fn account(&self, participant: u16) -> AccountId {
        AccountId { participant: ParticipantId(participant), number: AccountNumber(0) }
    }
}

/// A payment of 5.00 from Alpha's first customer to Beta's.
const PAID: Uetr = Uetr([9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, 9, 9, 9, 9, 9, 9]);
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
        id: NetworkId(7),
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
    Known(HashMap::from([
        ((1, "DE20999000010000000001"), 0),
        ((1, "lost"), 1),
        ((2, "FR7699999000010000000000115"), 0),
        ((2, "bob"), 0),
    ]))
}

fn orders(message: &str) -> Vec<Result<Order, Reason>> {
    let (settings, network, accounts) = (settings(), network(), known());
    let gateway = Gateway { network: &network, settings: &settings, accounts: &accounts };
    let message = gateway.read(message.as_bytes()).unwrap();
    gateway.instructed(&message, Date::parse("2025-03-03").unwrap())
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
    assert_eq!(draft.header.expiry, Timestamp(1010));
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
    assert_eq!(
        order.uetr.0,
        tally_iso20022::derived_return_uetr(&PAID.0),
        "whatever the message is called, once"
    );
    assert_eq!(Instructions::read(message.as_bytes()).unwrap().uetr(0), order.uetr);
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
