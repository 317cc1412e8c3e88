//! How accounts without an alias are named.

use tally_ledger::{AccountNumber, AccountRole, Network};

/// The account number that a text means without asking for aliases: a number; or an institution's own account as
/// `own:EUR`, `issuance:EUR` or `settlement:EUR:BIC`.
pub fn account_number(network: &Network, text: &str) -> Option<AccountNumber> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(AccountNumber);
    }
    let mut parts = text.split(':');
    let (role, asset, holder) = (parts.next()?, parts.next()?, parts.next());
    let (asset, _) = network.asset(asset)?;
    match (role, holder, parts.next()) {
        ("own", None, None) => Some(AccountNumber::own(asset)),
        ("issuance", None, None) => Some(AccountNumber::issuance(asset)),
        ("settlement", Some(bic), None) => {
            network.participant(bic).map(|(holder, _)| AccountNumber::settlement(asset, holder))
        }
        _ => None,
    }
}

/// The name of an account that has no alias: the inverse of [`account_number`].
pub fn account_text(network: &Network, number: AccountNumber) -> String {
    let code = |asset: tally_ledger::AssetId| {
        network.assets.get(asset.index()).map_or_else(|| asset.0.to_string(), |asset| asset.code.clone())
    };
    match number.role() {
        AccountRole::Customer => number.0.to_string(),
        AccountRole::Own(asset) => format!("own:{}", code(asset)),
        AccountRole::Issuance(asset) => format!("issuance:{}", code(asset)),
        AccountRole::Settlement(asset, holder) => {
            let bic = network.participants.get(holder.index()).map_or("?", |p| p.bic.as_str());
            format!("settlement:{}:{bic}", code(asset))
        }
    }
}
