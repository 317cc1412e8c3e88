//! `tally pay FILE…`

use super::{Ended, print};
use crate::connection::{Connection, ConnectionArguments};
use crate::keys::KeyRing;
use anyhow::{Context, ensure};
use base64::Engine as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tally_crypto::Hash;
use tally_gateway::payments::Instructions;
use tally_gateway::wire::{Draft, PreparedBody, SignedDraft, SubmitBody};
use tally_gateway::{codec, payments};
use tally_iso20022::{
    Limits, MessageKind, Money, ReportedReason, StatusReason, StatusReport, TransactionReport, Transfer,
};
use tally_ledger::transaction::Kind;
use tally_ledger::{AccountId, Amount, Network, Transaction};
use tally_settlement::path;

/// Arguments of `tally pay`.
#[derive(Debug, clap::Args)]
pub(super) struct Pay {
    /// Payment messages, in the order in which they are sent
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Directory in which to write the answers, as NAME.pain.002.xml or NAME.pacs.002.xml
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the answers (pain.002 to a pain.001, else pacs.002) in place of a line for each payment
    #[arg(long)]
    xml: bool,
    /// End with status 1 when a payment was refused
    #[arg(long)]
    fail_on_reject: bool,
}

impl Pay {
    pub(super) fn run(self, arguments: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = arguments.connect()?;
        let mut keys = None;
        let mut ended = Ended::Well;
        if let Some(directory) = &self.out {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let width = self.files.iter().map(|file| name(file).chars().count()).max().unwrap_or(0);
        for file in &self.files {
            let place = || format!("{}", file.display());
            let bytes = read(file)?;
            let message = Instructions::read(&bytes).ok();
            let prepared = connection.client.prepare(&bytes).with_context(place)?;
            let signed = match &message {
                Some(message) => sign(&connection, &mut keys, message, &prepared).with_context(place)?,
                None => Vec::new(),
            };
            let encoded = base64::engine::general_purpose::STANDARD.encode(&bytes);
            let xml = connection.client.pay(&SubmitBody { message: encoded, signed }).with_context(place)?;
            let report = tally_iso20022::parse_status_report(&xml, &Limits::default()).with_context(place)?;
            if let Some(directory) = &self.out {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                let kind = report.definition.get(..8).unwrap_or("pacs.002");
                let path = directory.join(format!("{stem}.{kind}.xml"));
                std::fs::write(&path, &xml).with_context(|| format!("cannot write {}", path.display()))?;
            }
            if self.xml {
                print::line(std::str::from_utf8(&xml).context("the answer is not UTF-8")?);
            } else {
                show(&connection.network, &name(file), width, message.as_ref(), &report);
            }
            if self.fail_on_reject && is_refused(&report) {
                ended = Ended::Refused;
            }
        }
        Ok(ended)
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    // One byte more than is read anywhere, so that a longer file is refused as too long and not as cut off.
    let limit = Limits::default().bytes as u64 + 1;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

/// Signs the drafts after checking that each is what the message says.
fn sign(
    connection: &Connection,
    keys: &mut Option<KeyRing>,
    message: &Instructions,
    prepared: &PreparedBody,
) -> anyhow::Result<Vec<SignedDraft>> {
    let drafts: Vec<(usize, &Draft)> = (0..)
        .zip(&prepared.payments)
        .filter_map(|(position, payment)| Some((position, payment.draft.as_ref()?)))
        .collect();
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    if keys.is_none() {
        *keys = Some(connection.keys()?);
    }
    let mut signed = Vec::with_capacity(drafts.len());
    for (position, draft) in drafts {
        let mut transaction = check(&connection.network, message, position, draft)
            .with_context(|| format!("payment {}: what the network prepared is not signed", position + 1))?;
        if let Some(keys) = keys {
            for signer in &draft.signers {
                let key = keys.signing_key(signer);
                let key = key.with_context(|| format!("payment {}", position + 1))?;
                transaction.sign(&connection.network.id, key);
            }
        }
        signed.push(SignedDraft { position, transaction: codec::encode_one(&transaction)? });
    }
    Ok(signed)
}

/// The transaction of a draft, if it makes the payment that the message asks for and nothing else.
fn check(
    network: &Network,
    message: &Instructions,
    position: usize,
    draft: &Draft,
) -> anyhow::Result<Transaction> {
    let transaction = codec::decode_one(&draft.transaction)?;
    ensure!(transaction.id(&network.id).to_string() == draft.id, "its id is not that of its content");
    ensure!(transaction.header.network == network.id.tag(), "it is for another network");
    ensure!(transaction.header.kind == Kind::Transfer.number(), "it is not a transfer");
    ensure!(message.may_be(position, transaction.header.uetr), "it has another reference");
    let asked = Asked::of(message, position)?;
    ensure!(transaction.header.details == asked.details, "it commits to other details than the message's");
    let (asset, properties) =
        network.asset(&asked.amount.currency_code()).context("the network does not have the currency")?;
    let amount = asked.amount.minor_units(properties.exponent);
    let amount = Amount(amount.map_err(|reason| anyhow::anyhow!("{reason}"))?);
    let (Some(first), Some(last)) = (transaction.legs.first(), transaction.legs.last()) else {
        anyhow::bail!("it has no legs");
    };
    let from = AccountId { participant: first.participant, number: first.account };
    let to = AccountId { participant: last.participant, number: last.account };
    ensure!(
        transaction.legs == path::payment(network, from, to, asset, amount),
        "its legs do not move {} from one account to one other",
        asked.amount
    );
    for (side, wanted, found) in [("debtor", asked.debtors, from), ("creditor", asked.creditors, to)] {
        let fits = wanted.is_empty()
            || wanted.iter().any(|bic| {
                network
                    .participant(bic.as_str())
                    .is_some_and(|(participant, _)| participant == found.participant)
            });
        ensure!(fits, "its {side}'s institution is not the message's");
    }
    Ok(transaction)
}

/// What a message says of one payment.
struct Asked {
    amount: Money,
    details: Hash,
    /// Institutions that may hold the account; any may where there are none.
    debtors: Bics,
    creditors: Bics,
}

impl Asked {
    fn of(message: &Instructions, position: usize) -> anyhow::Result<Self> {
        let none = "the message has no such payment";
        match message {
            Instructions::Payments(message) => {
                let payment = message.payments.get(position).context(none)?;
                let transfer = payment.transfer.as_ref().ok().context("the payment's form is wrong")?;
                let (debtors, creditors) = institutions(message.kind, transfer);
                let details = payments::Said::by_payment(message, position).hash();
                Ok(Self { amount: transfer.amount, details, debtors, creditors })
            }
            Instructions::Returns(message, _) => {
                let returned = message.returns.get(position).context(none)?;
                let order = returned.order.as_ref().ok().context("the return's form is wrong")?;
                let details = payments::Said::by_return(message, returned, order).hash();
                Ok(Self { amount: order.amount, details, debtors: Vec::new(), creditors: Vec::new() })
            }
        }
    }
}

type Bics = Vec<tally_iso20022::Bic>;

/// The institutions that may hold the debtor's and the creditor's account.
fn institutions(kind: MessageKind, transfer: &Transfer) -> (Bics, Bics) {
    let agent = |agent: &Option<tally_iso20022::Agent>| agent.as_ref().and_then(|agent| agent.bic);
    let (mut debtors, mut creditors) = (Bics::new(), Bics::new());
    if kind == MessageKind::FinancialInstitutionCreditTransfer {
        debtors.extend(transfer.debtor.bic);
        creditors.extend(transfer.creditor.bic);
    }
    debtors.extend(agent(&transfer.debtor_agent));
    creditors.extend(agent(&transfer.creditor_agent));
    (debtors, creditors)
}

fn is_refused(report: &StatusReport) -> bool {
    let refused = |status: &Option<String>| status.as_deref() == Some("RJCT");
    refused(&report.group_status)
        || report.blocks.iter().any(|block| refused(&block.status))
        || report.transactions.iter().any(|payment| refused(&payment.status))
}

/// The amount with the decimals of its currency, as far as the network knows it.
fn amount_text(network: &Network, amount: &Money) -> String {
    let code = amount.currency_code();
    let exact = network.asset(&code).and_then(|(_, asset)| {
        let units = amount.minor_units(asset.exponent).ok()?;
        Some(format!("{code} {}", Amount(units).display(asset.exponent)))
    });
    exact.unwrap_or_else(|| amount.to_string())
}

/// One line for each payment that is reported on; one for a message, or for a block of its payments, that was refused as a
/// whole.
fn show(network: &Network, name: &str, width: usize, message: Option<&Instructions>, report: &StatusReport) {
    let refused = |status: &Option<String>, what: &str, reasons: &[ReportedReason]| {
        let reason = reasons.first();
        let code = reason.and_then(|reason| reason.code.as_deref()).unwrap_or("-");
        let text = reason.map(|reason| reason.text.as_str()).unwrap_or_default();
        print::line(&format!(
            "{} {code:4}  {name:width$}  {what}{text}",
            status.as_deref().unwrap_or("RJCT")
        ));
    };
    if report.transactions.is_empty() && report.blocks.iter().all(|block| block.reasons.is_empty()) {
        refused(&report.group_status, "", &report.group_reasons);
    }
    let mut amounts = Amounts { network, message, next: 0 };
    let mut blocks = report.blocks.iter().peekable();
    for payment in &report.transactions {
        while let Some(block) =
            blocks.next_if(|block| payment.payment_information_id.as_ref() != Some(&block.id))
        {
            if !block.reasons.is_empty() {
                refused(&block.status, &format!("{}: ", block.id), &block.reasons);
            }
        }
        let reason = payment.reasons.first().or(report.group_reasons.first());
        let code = reason.and_then(|reason| reason.code.as_deref()).unwrap_or("-");
        let status = payment.status.as_deref().unwrap_or("-");
        let text = match reason {
            Some(reason) if !reason.text.is_empty() => reason.text.clone(),
            Some(_) => {
                StatusReason::from_code(code).map(|reason| reason.sentence().to_owned()).unwrap_or_default()
            }
            None => match &payment.reference {
                Some(reference) => format!("settled, {reference}"),
                None => "not decided yet; ask again with `tally status`".to_owned(),
            },
        };
        let amount = amounts.of(payment);
        let id = payment.end_to_end_id.as_deref().or(payment.instruction_id.as_deref()).unwrap_or("-");
        print::line(&format!("{status} {code:4}  {name:width$}  {id:18}  {amount:>14}  {text}"));
    }
    for block in blocks.filter(|block| !block.reasons.is_empty()) {
        refused(&block.status, &format!("{}: ", block.id), &block.reasons);
    }
}

/// Finds the amounts of payments that are reported on in the order of their message.
struct Amounts<'a> {
    network: &'a Network,
    message: Option<&'a Instructions>,
    next: usize,
}

impl Amounts<'_> {
    /// The amount of the next payment with those references; payments of blocks that are refused as a whole are passed over.
    fn of(&mut self, report: &TransactionReport) -> String {
        let Some(message) = self.message else { return String::new() };
        let is_it = |position: &usize| match message {
            Instructions::Payments(message) => message.payments.get(*position).is_some_and(|payment| {
                let block = &report.payment_information_id;
                report.end_to_end_id.as_ref() == Some(&payment.end_to_end_id)
                    && (block.is_none() || *block == payment.payment_information_id)
            }),
            Instructions::Returns(..) => true,
        };
        let Some(position) = (self.next..message.len()).find(is_it) else { return String::new() };
        self.next = position + 1;
        Asked::of(message, position).map(|asked| amount_text(self.network, &asked.amount)).unwrap_or_default()
    }
}
