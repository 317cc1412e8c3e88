//! Who may come in: passwords for tokens, tokens for users.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use super::settings::Clock;
use super::stopping::Stopped;
use super::throttle::Throttle;
use crate::permissions::Permission;
use crate::refusal::{Refusal, RefusalCode};
use crate::users::{User, Users};

/// Logins that wait for their turn to be verified; more are refused.
const WAITING_LIMIT: usize = 256;
const TOKENS_LIMIT: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Gate {
    users: RwLock<Arc<Users>>,
    /// Told whenever the users are others.
    replaced: watch::Sender<()>,
    token_lifetime: Duration,
    clock: Clock,
    /// By the hash of the token: what is in memory opens nothing, and how long a look-up takes tells nothing.
    tokens: RwLock<HashMap<[u8; 32], Session>>,
    throttle: Mutex<Throttle>,
    verifications: Arc<Semaphore>,
    waiting: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Session {
    user: Arc<User>,
    expires: Instant,
}

/// A token and how long it is good for.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) valid_for: Duration,
}

impl Gate {
    pub(crate) fn new(users: Users, token_lifetime: Duration, at_once: usize, clock: Clock) -> Self {
        Self {
            users: RwLock::new(Arc::new(users)),
            replaced: watch::Sender::new(()),
            token_lifetime,
            clock,
            tokens: RwLock::default(),
            throttle: Mutex::default(),
            verifications: Arc::new(Semaphore::new(at_once.max(1))),
            waiting: AtomicUsize::new(0),
        }
    }

    /// These are the users from now on. Who is no longer one of them, or has another password, is out at once: tokens
    /// open nothing, and what was followed ends. Others keep their tokens, and may what the new users may.
    pub(crate) fn replace(&self, users: Users) {
        let users = Arc::new(users);
        {
            // Both under one lock: no token is issued in between to a user of before.
            let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
            *self.users.write().unwrap_or_else(PoisonError::into_inner) = users.clone();
            tokens.retain(|_, session| match users.find(session.user.name()) {
                Some(user) if user.has_password_of(&session.user) => {
                    session.user = user.clone();
                    true
                }
                _ => false,
            });
        }
        self.replaced.send_replace(());
    }

    fn users(&self) -> Arc<Users> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Is done once this user is removed or has another password or other permissions.
    pub(crate) fn left(self: &Arc<Self>, user: &Arc<User>) -> Stopped {
        let mut replaced = self.replaced.subscribe();
        let (gate, user) = (self.clone(), user.clone());
        Box::pin(async move {
            while gate.users().find(user.name()).is_some_and(|now| **now == *user) {
                if replaced.changed().await.is_err() {
                    return;
                }
            }
        })
    }

    /// A token for the user with this password.
    pub(crate) async fn login(
        self: &Arc<Self>,
        name: String,
        password: String,
        address: IpAddr,
    ) -> Result<Token, Refusal> {
        self.check_throttle(&name, address)?;
        let turn = {
            let _waiting = Waiting::enter(&self.waiting)?;
            self.verifications.clone().acquire_owned().await.map_err(|_| internal())?
        };
        // Others may have failed while this one waited: no more guesses slip through than are verified at once.
        self.check_throttle(&name, address)?;
        let gate = self.clone();
        let verified = tokio::task::spawn_blocking(move || {
            // Neither the turn nor the count of failures depends on whether the client still waits.
            let _turn = turn;
            let user = gate.users().verify(&name, &password);
            match &user {
                Some(_) => gate.throttle().succeeded(&name, address),
                None => {
                    gate.throttle().failed(&name, address, (gate.clock)());
                    tracing::warn!(user = name, %address, "login refused");
                }
            }
            user
        });
        match verified.await.map_err(|_| internal())? {
            Some(user) => self.issue(user),
            None => Err(Refusal::new(RefusalCode::BadCredentials, "the user or the password is wrong")),
        }
    }

    fn issue(&self, user: Arc<User>) -> Result<Token, Refusal> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| internal())?;
        let text = blake3::Hash::from_bytes(secret).to_hex().to_string();
        let now = (self.clock)();
        let session = Session { user, expires: now + self.token_lifetime };
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        // The users may have been replaced while the password was verified.
        if !self.users().find(session.user.name()).is_some_and(|now| **now == *session.user) {
            return Err(Refusal::new(RefusalCode::BadCredentials, "the user or the password is wrong"));
        }
        // Amortised: after a sweep the table may double before the next.
        if tokens.len() == tokens.capacity() || tokens.len() >= TOKENS_LIMIT {
            tokens.retain(|_, session| session.expires > now);
        }
        if tokens.len() >= TOKENS_LIMIT {
            let reason = format!("{TOKENS_LIMIT} logins are valid; log in less often and keep the token");
            return Err(Refusal::new(RefusalCode::LoginThrottled, reason));
        }
        tokens.insert(*blake3::hash(text.as_bytes()).as_bytes(), session);
        Ok(Token { text, valid_for: self.token_lifetime })
    }

    /// The user who holds this token, as the value of `authorization`.
    pub(crate) fn admit(&self, authorization: Option<&[u8]>) -> Result<Arc<User>, Refusal> {
        let Some(value) = authorization else {
            return Err(Refusal::new(
                RefusalCode::TokenMissing,
                "this call needs a token; call Login and send `authorization: Bearer <token>`",
            ));
        };
        let token = match value.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"Bearer ") => token,
            _ => {
                let reason = "`authorization` is not of the form `Bearer <token>`";
                return Err(Refusal::new(RefusalCode::TokenMissing, reason));
            }
        };
        let now = (self.clock)();
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        match tokens.get(blake3::hash(token).as_bytes()) {
            Some(session) if session.expires > now => Ok(session.user.clone()),
            Some(_) => Err(Refusal::new(RefusalCode::TokenExpired, "the token has expired; log in again")),
            None => Err(Refusal::new(RefusalCode::TokenUnknown, "the token is not valid here; log in again")),
        }
    }

    fn check_throttle(&self, name: &str, address: IpAddr) -> Result<(), Refusal> {
        match self.throttle().wait(name, address, (self.clock)()) {
            None => Ok(()),
            Some(left) => Err(Refusal::new(
                RefusalCode::LoginThrottled,
                format!("too many logins failed; try again in {} s", left.as_millis().div_ceil(1000)),
            )),
        }
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses unless the user may do this.
pub(crate) fn require(user: &User, permission: &Permission) -> Result<(), Refusal> {
    if user.permissions().allow(permission) {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::PermissionMissing,
        format!("user `{}` lacks the permission `{permission}`", user.name()),
    ))
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Result<Self, Refusal> {
        let entered = Self(count);
        if count.fetch_add(1, Ordering::Relaxed) >= WAITING_LIMIT {
            let reason = "too many logins at once; try again in a few seconds";
            return Err(Refusal::new(RefusalCode::LoginThrottled, reason));
        }
        Ok(entered)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why what a user followed has ended.
pub(crate) fn left() -> Refusal {
    Refusal::new(RefusalCode::TokenUnknown, "the user was removed or changed; log in again")
}

fn internal() -> Refusal {
    Refusal::new(RefusalCode::Internal, "the login could not be checked; the node's log says more")
}

#[cfg(test)]
mod tests;
