//! Who sends a request: each handler says by its argument which role it wants.

use super::failure::Failure;
use super::{App, Peer};
use crate::access::{Access, Denied, Role, User};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;
use tally_crypto::verify;
use tally_ledger::{AccountId, AccountRole, Kind, Leg, ParticipantId, Timestamp, Transaction};
use tally_settlement::recent::Reference;
use tally_slots::Slot;

/// A role as a type.
pub(super) trait Right: Send {
    const ROLE: Role;
}

/// [`Role::Submit`]
pub(super) struct Submits;
/// [`Role::Approve`]
pub(super) struct Approves;
/// [`Role::Read`]
pub(super) struct Reads;
/// [`Role::Operate`]
pub(super) struct Operates;

impl Right for Submits {
    const ROLE: Role = Role::Submit;
}
impl Right for Approves {
    const ROLE: Role = Role::Approve;
}
impl Right for Reads {
    const ROLE: Role = Role::Read;
}
impl Right for Operates {
    const ROLE: Role = Role::Operate;
}

/// By what somebody is known.
#[derive(Clone)]
pub(super) enum Credential {
    Token(String),
    /// The fingerprint of a client's certificate.
    Certificate([u8; 32]),
}

impl Credential {
    /// What a request shows; a token goes before a certificate.
    pub(super) fn of(headers: &HeaderMap, extensions: &Extensions) -> Result<Self, Denied> {
        let peer = extensions.get::<Peer>().copied().unwrap_or_default();
        match (headers.get(header::AUTHORIZATION), peer.certificate) {
            (Some(value), _) => Ok(Self::Token(bearer(value.as_bytes())?.to_owned())),
            (None, Some(fingerprint)) => Ok(Self::Certificate(fingerprint)),
            (None, None) => Err(Denied::Nobody),
        }
    }

    /// Whose it is now.
    pub(super) fn user(&self, access: &Access, now: Timestamp) -> Result<Arc<User>, Denied> {
        match self {
            Self::Token(token) => access.by_token(token, now),
            Self::Certificate(fingerprint) => access.by_certificate(fingerprint, now),
        }
    }
}

/// A user who has that role.
pub(super) struct By<R> {
    user: Arc<User>,
    role: PhantomData<R>,
}

impl<R: Right> FromRequestParts<Arc<App>> for By<R> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let by = Self::request(app, &Credential::of(&parts.headers, &parts.extensions)?)?;
        if let Some(slot) = parts.extensions.get::<Arc<Slot>>() {
            slot.is_users();
        }
        Ok(by)
    }
}

impl<R: Right> By<R> {
    /// Who sends a request, which costs one.
    pub(super) fn request(app: &App, credential: &Credential) -> Result<Self, Denied> {
        let now = app.desk.now();
        let user = match credential.user(&app.access.current(), now) {
            Err(Denied::Unknown) => credential.user(&app.access.latest(), now),
            known => known,
        }?;
        app.access.charge(&user, 1, Instant::now())?;
        Self::with_role(user)
    }

    /// Whose that credential is now, at no cost.
    pub(super) fn still(app: &App, credential: &Credential) -> Result<Self, Denied> {
        Self::with_role(credential.user(&app.access.current(), app.desk.now())?)
    }

    fn with_role(user: Arc<User>) -> Result<Self, Denied> {
        if !user.roles.contains(&R::ROLE) {
            return Err(Denied::Role { user: user.name.clone(), role: R::ROLE });
        }
        Ok(Self { user, role: PhantomData })
    }
}

/// The token of `Bearer TOKEN` (RFC 6750, section 2.1); the scheme in any case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Result<&str, Denied> {
    let text = std::str::from_utf8(value).map_err(|_| Denied::Unknown)?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        _ => Err(Denied::Nobody),
    }
}

impl<R> By<R> {
    /// Who it is.
    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// That the user acts for that institution.
    pub(super) fn acts_for(&self, app: &App, participant: ParticipantId) -> Result<(), Failure> {
        Ok(self.user.must_act_for(app.desk.network(), participant)?)
    }

    /// That the user may ask about that account: the institution's that keeps it, and a settlement account also its
    /// holder's.
    pub(super) fn reads(&self, app: &App, account: AccountId) -> Result<(), Failure> {
        match account.number.role() {
            AccountRole::Settlement(_, holder) if self.user.acts_for(holder) => Ok(()),
            _ => self.acts_for(app, account.participant),
        }
    }

    /// That the user may hand that transaction in: it takes from an account of an institution that the user acts for, or
    /// changes what that institution issued.
    pub(super) fn hands_in(&self, app: &App, kind: Kind, legs: &[Leg]) -> Result<(), Failure> {
        if matches!(kind, Kind::Issue | Kind::Redeem) && !self.user.roles.contains(&Role::Approve) {
            return Err(Denied::Role { user: self.user.name.clone(), role: Role::Approve }.into());
        }
        let takes = |leg: &&Leg| match leg.account.role() {
            // Reserves move on the word of the institution whose customer pays.
            AccountRole::Settlement(..) => false,
            AccountRole::Issuance(_) => true,
            _ => leg.amount.is_debit(),
        };
        if legs.iter().filter(takes).any(|leg| self.user.acts_for(leg.participant)) {
            return Ok(());
        }
        let payer = legs.iter().find(takes).or(legs.first()).map(|leg| leg.participant);
        payer.map_or(Ok(()), |payer| self.acts_for(app, payer))
    }

    /// That the user may hand that transaction in as it is. Its reference belongs to the institution that it debits first, and
    /// is used up by it: where that is another than the user's, the owner of the account there must have signed.
    pub(super) fn hands_in_signed(
        &self,
        app: &App,
        kind: Kind,
        transaction: &Transaction,
    ) -> Result<(), Failure> {
        self.hands_in(app, kind, &transaction.legs)?;
        let Some(payer) = Reference::payer(transaction).filter(|leg| !self.user.acts_for(leg.participant))
        else {
            return Ok(());
        };
        let id = AccountId { participant: payer.participant, number: payer.account };
        let owner = match payer.account.role() {
            AccountRole::Customer => app.desk.account(id).and_then(|account| account.owner),
            _ => app.desk.network().participants.get(payer.participant.index()).map(|found| found.key),
        };
        let signed = owner.and_then(|owner| transaction.signers.iter().find(|signer| signer.key == owner));
        let id = transaction.id(&app.desk.network().id);
        if signed.is_some_and(|by| verify(&by.key, id.as_bytes(), &by.signature).is_ok()) {
            return Ok(());
        }
        // What else there is to say of the account is not the user's to know.
        let text = "the reference belongs to the institution of the account that is debited first; this is another, and that \
                    account's owner has not signed";
        Err(Failure::new(403, "forbidden", text))
    }

    /// That the user may ever send so many payments at once: it would not even be let in after a pause.
    pub(super) fn fits(&self, payments: usize) -> Result<(), Failure> {
        let most = self.user.most_at_once();
        if u32::try_from(payments).is_ok_and(|payments| payments <= most) {
            return Ok(());
        }
        let text =
            format!("{} may send {most} transactions in a request; this has {payments}", self.user.name);
        Err(Failure::new(429, "quota", text))
    }

    /// Takes the cost of so many payments, beyond the request itself.
    pub(super) fn charge(&self, app: &App, payments: usize) -> Result<(), Failure> {
        self.fits(payments)?;
        let more = u32::try_from(payments.saturating_sub(1)).unwrap_or(u32::MAX);
        Ok(app.access.charge(&self.user, more, Instant::now())?)
    }
}
