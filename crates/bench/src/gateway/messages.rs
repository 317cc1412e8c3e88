//! A payment message with all its payments signed.

use super::served::{NAMED, Served, named, named_key};
use super::{Done, GatewayBenchError, MESSAGE};
use base64::Engine as _;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tally_gateway::codec;
use tally_gateway::wire::{PreparedBody, SignedDraft, SubmitBody};

/// A client that waits for all outcomes of a message.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(120))).build().into()
}

/// The signed message as it is submitted: the payer's work.
pub(super) fn prepare(served: &Served, run: u64) -> Result<Vec<u8>, GatewayBenchError> {
    let message = pain_001(served, run);
    let answer = post(served, "/v1/iso20022/prepare", "application/xml", message.as_bytes())?;
    let prepared: PreparedBody = serde_json::from_slice(&answer).map_err(GatewayBenchError::client)?;
    let mut signed = Vec::with_capacity(MESSAGE);
    for (position, payment) in prepared.payments.iter().enumerate() {
        let draft = payment.draft.as_ref();
        let draft = draft.ok_or_else(|| GatewayBenchError::Refused(format!("{:?}", payment.refused)))?;
        let mut transaction = codec::decode_one(&draft.transaction).map_err(GatewayBenchError::client)?;
        transaction.sign(&served.network(), &named_key(debtor(position)));
        let transaction = codec::encode_one(&transaction).map_err(GatewayBenchError::client)?;
        signed.push(SignedDraft { position, transaction });
    }
    let message = base64::engine::general_purpose::STANDARD.encode(&message);
    serde_json::to_vec(&SubmitBody { message, signed }).map_err(GatewayBenchError::client)
}

/// Hands it in, and waits for all outcomes.
pub(super) fn submit(served: &Served, body: &[u8]) -> Result<Done, GatewayBenchError> {
    let began = Instant::now();
    let answer = post(served, "/v1/iso20022/submit", "application/json", body)?;
    let took = began.elapsed();
    let report = tally_iso20022::parse_status_report(&answer, &tally_iso20022::Limits::default());
    let report = report.map_err(GatewayBenchError::client)?;
    let settled = report.transactions.iter().filter(|one| one.status.as_deref() == Some("ACSC")).count();
    if settled != MESSAGE {
        return Err(GatewayBenchError::Refused(format!("{settled} of {MESSAGE} were settled")));
    }
    Ok(Done::new(MESSAGE, took))
}

fn post(served: &Served, path: &str, kind: &str, body: &[u8]) -> Result<Vec<u8>, GatewayBenchError> {
    let answer = agent()
        .post(format!("http://{}{path}", served.address))
        .header("authorization", format!("Bearer {}", served.token.reveal()))
        .content_type(kind)
        .send(body);
    let mut answer = answer.map_err(GatewayBenchError::client)?;
    answer.body_mut().with_config().limit(64 << 20).read_to_vec().map_err(GatewayBenchError::client)
}

/// Who pays the payment at that position: a block of the message has one payer.
fn debtor(position: usize) -> u32 {
    u32::try_from(position * NAMED as usize / 2 / MESSAGE).unwrap_or(0)
}

/// Payments of 0.01 from one half of the accounts to the other.
fn pain_001(served: &Served, run: u64) -> String {
    let bic = served.bic();
    let agent = |name: &str| format!("<{name}><FinInstnId><BICFI>{bic}</BICFI></FinInstnId></{name}>");
    let account = |name: &str, number| {
        format!("<{name}><Id><Othr><Id>{}</Id></Othr></Id></{name}>", self::named(number))
    };
    let mut blocks = String::new();
    for payer in 0..NAMED / 2 {
        let _ = write!(
            blocks,
            "<PmtInf><PmtInfId>P{payer}</PmtInfId><PmtMtd>TRF</PmtMtd><ReqdExctnDt><Dt>2025-03-03</Dt></ReqdExctnDt>\
             <Dbtr><Nm>Payer {payer}</Nm></Dbtr>{}{}",
            account("DbtrAcct", payer),
            agent("DbtrAgt")
        );
        for position in (0..MESSAGE).filter(|position| debtor(*position) == payer) {
            let _ = write!(
                blocks,
                "<CdtTrfTxInf><PmtId><EndToEndId>E{position}</EndToEndId></PmtId><Amt><InstdAmt Ccy=\"EUR\">0.01</InstdAmt></Amt>\
                 {}<Cdtr><Nm>Payee {position}</Nm></Cdtr>{}<RmtInf><Ustrd>Invoice {position}</Ustrd></RmtInf></CdtTrfTxInf>",
                agent("CdtrAgt"),
                account("CdtrAcct", NAMED / 2 + debtor(position))
            );
        }
        blocks.push_str("</PmtInf>");
    }
    format!(
        "<Document xmlns=\"urn:iso:std:iso:20022:tech:xsd:pain.001.001.09\"><CstmrCdtTrfInitn><GrpHdr><MsgId>BENCH-{run}</MsgId>\
         <CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>{MESSAGE}</NbOfTxs><CtrlSum>{:.2}</CtrlSum><InitgPty><Nm>Bench</Nm>\
         </InitgPty></GrpHdr>{blocks}</CstmrCdtTrfInitn></Document>",
        MESSAGE as f64 / 100.0
    )
}
