//! Writing.

use crate::envelope::NAMESPACE;
use crate::error::WriteError;
use crate::output;
use crate::xml::Writer;

use super::{PaymentReturn, RETURN_DEFINITION, ReturnOrder, ReturnedPayment};

/// Writes a pacs.004.001.09. The number of returns is that of `returns`; control sum and total are written
/// as stated.
///
/// # Errors
/// If a text is not as the schema allows, there is no return, or one of them was refused.
pub fn payment_return(message: &PaymentReturn) -> Result<String, WriteError> {
    let refused = message.instructions().position(|(_, verdict)| verdict.is_err());
    if let Some(payment) = refused {
        return Err(WriteError::Forbidden { payment });
    }
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{RETURN_DEFINITION}"), |xml| {
        xml.element("PmtRtr", |xml| {
            xml.element("GrpHdr", |xml| header(xml, message));
            if message.returns.is_empty() {
                xml.refuse("TxInf", "", "at least one return".to_owned());
            }
            for (returned, order) in message.instructions() {
                if let Ok(order) = order {
                    xml.element("TxInf", |xml| write_return(xml, returned, order));
                }
            }
        });
    });
    xml.finish()
}

fn header(xml: &mut Writer, message: &PaymentReturn) {
    xml.id("MsgId", &message.message_id);
    xml.time("CreDtTm", &message.created);
    xml.text("NbOfTxs", &message.returns.len().to_string());
    if let Some(sum) = message.control_sum {
        xml.text("CtrlSum", &sum.to_string());
    }
    if let Some(total) = &message.total {
        xml.amount("TtlRtrdIntrBkSttlmAmt", total);
    }
    if let Some(day) = message.settlement_date {
        xml.text("IntrBkSttlmDt", &day.to_string());
    }
    xml.element("SttlmInf", |xml| xml.text("SttlmMtd", message.settlement_method.code()));
    output::agent(xml, "InstgAgt", message.instructing_agent.as_ref());
    output::agent(xml, "InstdAgt", message.instructed_agent.as_ref());
}

fn write_return(xml: &mut Writer, returned: &ReturnedPayment, order: &ReturnOrder) {
    xml.optional_id("RtrId", returned.id.as_deref());
    returned.original.write_group(xml);
    returned.original.write_ids(xml);
    returned.original.write_settlement(xml);
    xml.amount("RtrdIntrBkSttlmAmt", &order.amount);
    if let Some(day) = order.settlement_date {
        xml.text("IntrBkSttlmDt", &day.to_string());
    }
    if let Some(bearer) = order.charges {
        xml.text("ChrgBr", bearer.code());
    }
    if let Some(reason) = &order.reason {
        reason.write(xml, "RtrRsnInf");
    }
}
