//! The side that receives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{SignedTransaction, TransactionId};
use tally_flows::{Context, FlowError, Notaries, Session};

use super::{ASKED, Attachments, Batch, HISTORY_BYTES, HISTORY_TRANSACTIONS, Reply};
use crate::check::{self, ById, dependencies_of};

/// Most transactions that are verified and recorded in one go.
const VERIFIED_AT_ONCE: usize = 200;
/// Most transactions that are looked up for those.
const LOOKED_UP_AT_ONCE: usize = 1_000;

/// The transactions that a received one builds on, verified.
#[derive(Debug, Default)]
pub struct History {
    /// Those that the received one names.
    pub(crate) at_hand: ById,
    /// Verified and not recorded yet, oldest first: they are recorded together with what builds on them.
    pub(crate) fresh: Vec<Arc<SignedTransaction>>,
}

/// Transactions that are not known here yet, and what each builds on.
#[derive(Default)]
struct Unknown {
    graph: BTreeMap<TransactionId, Vec<TransactionId>>,
    /// Known to be wanted, not here.
    wanted: BTreeSet<TransactionId>,
    /// Verified here before.
    known: BTreeSet<TransactionId>,
    bytes: u64,
}

/// What is remembered of a transaction that is kept.
#[derive(BorshSerialize, BorshDeserialize)]
struct Kept {
    id: TransactionId,
    bytes: u64,
    builds_on: Vec<TransactionId>,
}

impl Kept {
    fn of(found: &SignedTransaction) -> Self {
        let content = found.transaction();
        Self { id: content.id(), bytes: content.encode().len() as u64, builds_on: dependencies_of(content) }
    }
}

impl History {
    /// Obtains and verifies the transactions `roots` and all they build on. `along` is what came with the offer, the
    /// rest is asked for in `session`, as are the attachments.
    ///
    /// # Errors
    /// [`FlowError::Invalid`] for a history that does not verify, [`FlowError::TooLarge`],
    /// [`FlowError::Unexpected`] for an answer to another question; what the session fails with.
    pub async fn resolve(
        context: &Context,
        session: &Session,
        attachments: &mut Attachments<'_>,
        roots: &[TransactionId],
        along: Vec<SignedTransaction>,
        notaries: &Notaries,
    ) -> Result<Self, FlowError> {
        if roots.is_empty() {
            return Ok(Self::default());
        }
        let mut unknown = Unknown::default();
        let mut at_hand = unknown.begin(context, roots, along).await?;
        let fetches = !unknown.wanted.is_empty();
        if fetches {
            context.step("Resolving");
            context.keep(std::mem::take(&mut at_hand).into_values().collect()).await?;
            unknown.fetch(context, session).await?;
        }
        let order = unknown.oldest_first(roots);
        let mut history = if fetches {
            unknown.verify_kept(context, attachments, &order, notaries).await?;
            Self::default()
        } else {
            unknown.verify_at_hand(context, attachments, &order, at_hand, notaries).await?
        };
        let absent: Vec<_> =
            roots.iter().copied().filter(|root| !history.at_hand.contains_key(root)).collect();
        history.at_hand.extend(recorded(context, absent).await?);
        Ok(history)
    }
}

/// Transactions that are recorded here.
pub(crate) async fn recorded(context: &Context, ids: Vec<TransactionId>) -> Result<ById, FlowError> {
    if ids.is_empty() {
        return Ok(ById::new());
    }
    let found = context.transactions(ids.clone()).await?;
    ids.into_iter()
        .zip(found)
        .map(|(id, found)| match found {
            Some(found) => Ok((id, found)),
            None => Err(FlowError::invalid(format!("transaction {id} is not recorded at this node"))),
        })
        .collect()
}

impl Unknown {
    /// Takes what came along, as far as it is wanted.
    async fn begin(
        &mut self,
        context: &Context,
        roots: &[TransactionId],
        along: Vec<SignedTransaction>,
    ) -> Result<ById, FlowError> {
        let mut along: ById = along.into_iter().map(|found| (found.id(), Arc::new(found))).collect();
        let mut at_hand = ById::new();
        let mut level = roots.to_vec();
        loop {
            let mut seen = BTreeSet::new();
            level.retain(|id| seen.insert(*id) && !self.is_seen(id));
            if level.is_empty() {
                return Ok(at_hand);
            }
            let known = context.known(level.clone()).await?;
            let mut next = Vec::new();
            for (id, known) in level.into_iter().zip(known) {
                if known {
                    self.known.insert(id);
                } else if let Some(found) = along.remove(&id) {
                    next.extend(self.take(Kept::of(&found))?);
                    at_hand.insert(id, found);
                } else {
                    self.wanted.insert(id);
                }
            }
            level = next;
        }
    }

    fn is_seen(&self, id: &TransactionId) -> bool {
        self.graph.contains_key(id) || self.wanted.contains(id) || self.known.contains(id)
    }

    fn take(&mut self, kept: Kept) -> Result<Vec<TransactionId>, FlowError> {
        self.bytes = self.bytes.saturating_add(kept.bytes);
        if self.bytes > HISTORY_BYTES {
            let what = "the history of a transaction".to_owned();
            return Err(FlowError::TooLarge { what, bytes: self.bytes, limit: HISTORY_BYTES });
        }
        if self.graph.len() >= HISTORY_TRANSACTIONS {
            return Err(FlowError::invalid(format!(
                "its history has more than {HISTORY_TRANSACTIONS} transactions"
            )));
        }
        self.graph.insert(kept.id, kept.builds_on.clone());
        Ok(kept.builds_on)
    }

    /// Asks for what is wanted until nothing is.
    async fn fetch(&mut self, context: &Context, session: &Session) -> Result<(), FlowError> {
        while !self.wanted.is_empty() {
            let ids: Vec<_> = self.wanted.iter().copied().take(ASKED).collect();
            session.send(&Reply::<()>::Fetch(ids)).await;
            let batch = session.receive_kept(|batch| self.digest(session, batch)).await?;
            let mentioned: BTreeSet<_> = batch.iter().flat_map(|kept| &kept.builds_on).copied().collect();
            let mentioned: Vec<_> = mentioned.into_iter().filter(|id| !self.is_seen(id)).collect();
            let known =
                if mentioned.is_empty() { Vec::new() } else { context.known(mentioned.clone()).await? };
            self.known.extend(mentioned.into_iter().zip(known).filter(|(_, known)| *known).map(|(id, _)| id));
            for kept in batch {
                // What nobody needs came because the sender cannot know what is here.
                if self.wanted.remove(&kept.id) {
                    for id in self.take(kept)? {
                        if !self.is_seen(&id) {
                            self.wanted.insert(id);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The transactions of a batch that may be needed, and what has to be remembered of them.
    fn digest(
        &self,
        session: &Session,
        Batch(batch): Batch,
    ) -> Result<(Vec<Kept>, Vec<Arc<SignedTransaction>>), FlowError> {
        let mut followed: BTreeSet<TransactionId> = BTreeSet::new();
        let (mut kept, mut transactions) = (Vec::new(), Vec::new());
        for found in batch {
            let id = found.id();
            if self.wanted.contains(&id) || followed.contains(&id) && !self.is_seen(&id) {
                let summary = Kept::of(&found);
                followed.extend(summary.builds_on.iter().copied());
                kept.push(summary);
                transactions.push(Arc::new(found));
            }
        }
        if kept.is_empty() {
            let reason = "a batch without any of the transactions that were asked for".to_owned();
            return Err(FlowError::Unexpected { party: session.peer().clone(), reason });
        }
        Ok((kept, transactions))
    }

    /// What is unknown, each after all that it builds on.
    fn oldest_first(&self, roots: &[TransactionId]) -> Vec<TransactionId> {
        let mut order = Vec::with_capacity(self.graph.len());
        let mut begun = BTreeSet::new();
        // A path from a root: each with the number of its dependencies that were visited.
        let mut path: Vec<(TransactionId, usize)> = Vec::new();
        for root in roots {
            let mut visit = Some(*root);
            loop {
                if let Some(id) = visit.take()
                    && self.graph.contains_key(&id)
                    && begun.insert(id)
                {
                    path.push((id, 0));
                }
                let Some((id, visited)) = path.last_mut() else { break };
                match self.graph.get(id).and_then(|dependencies| dependencies.get(*visited)) {
                    Some(next) => {
                        *visited += 1;
                        visit = Some(*next);
                    }
                    None => {
                        order.push(*id);
                        path.pop();
                    }
                }
            }
        }
        order
    }

    /// Verifies a history that came along with its offer.
    async fn verify_at_hand(
        &self,
        context: &Context,
        attachments: &mut Attachments<'_>,
        order: &[TransactionId],
        mut at_hand: ById,
        notaries: &Notaries,
    ) -> Result<History, FlowError> {
        let before: BTreeSet<_> =
            order.iter().flat_map(|id| &self.graph[id]).filter(|id| self.known.contains(id)).collect();
        at_hand.extend(recorded(context, before.into_iter().copied().collect()).await?);
        let mut fresh = Vec::with_capacity(order.len());
        for id in order {
            let found = at_hand[id].clone();
            check::finished(context, attachments, &found, &at_hand, notaries, &[]).await?;
            fresh.push(found);
        }
        Ok(History { at_hand, fresh })
    }

    /// Verifies and records a history that was fetched, part by part.
    async fn verify_kept(
        &self,
        context: &Context,
        attachments: &mut Attachments<'_>,
        order: &[TransactionId],
        notaries: &Notaries,
    ) -> Result<(), FlowError> {
        let mut rest = order;
        while !rest.is_empty() {
            let (part, looked_up) = self.part(rest);
            rest = &rest[part.len()..];
            let mut at_hand = recorded(context, looked_up).await?;
            let mut verified = Vec::with_capacity(part.len());
            for (id, found) in part.iter().zip(context.dependencies(part.to_vec()).await?) {
                let found =
                    found.ok_or_else(|| FlowError::invalid(format!("kept transaction {id} is gone")))?;
                check::finished(context, attachments, &found, &at_hand, notaries, &[]).await?;
                at_hand.insert(*id, found.clone());
                verified.push(found);
            }
            context.record(verified).await?;
            // A turn of its own for each part, so that other flows run and nothing piles up in one unit.
            let now = context.now().await;
            context.sleep_until(now.saturating_add(Duration::from_millis(1))).await;
        }
        Ok(())
    }

    /// As much of the beginning of `rest` as is verified in one go, and what has to be looked up for it.
    fn part<'a>(&self, rest: &'a [TransactionId]) -> (&'a [TransactionId], Vec<TransactionId>) {
        let mut inside = BTreeSet::new();
        let mut looked_up = BTreeSet::new();
        for id in rest.iter().take(VERIFIED_AT_ONCE) {
            let outside: Vec<_> = self.graph[id].iter().filter(|id| !inside.contains(*id)).collect();
            if !inside.is_empty() && looked_up.len() + outside.len() > LOOKED_UP_AT_ONCE {
                break;
            }
            looked_up.extend(outside);
            inside.insert(*id);
        }
        (&rest[..inside.len()], looked_up.into_iter().copied().collect())
    }
}
