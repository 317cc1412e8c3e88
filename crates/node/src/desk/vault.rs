//! Which states the flows of this node hold, and where the next coin comes from.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tally_contracts::{Party, PublicKey, StateAndRef, StateRef, Timestamp};
use tally_flows::{FlowError, FlowId, Selection};
use tally_store::{Coin, CoinCursor, Store, StoreError};

/// Coins read from the store in one go.
const SHELF: usize = 256;

/// States of failed flows that are remembered.
const DOUBTFUL: usize = 65_536;

/// States held, and coins at hand.
#[derive(Default)]
pub(crate) struct Vault {
    held: HashMap<StateRef, FlowId>,
    of_flow: HashMap<FlowId, Vec<StateRef>>,
    /// By asset and owner.
    shelves: HashMap<(String, PublicKey), Shelf>,
    /// Held by flows that failed, and chosen last: a peer may have heard from the notary that they are consumed, and told
    /// this node no more than that the deal failed.
    doubtful: HashSet<StateRef>,
    /// Flows that wait for what others hold, first come first served.
    waiting: BTreeMap<Line, Waiters>,
    /// Flows that wait and are to ask again.
    ready: Vec<FlowId>,
}

/// What flows of one line want: an asset, of one notary or of any.
type Line = (String, Option<Party>);

/// The flows that wait for one thing, in the order in which they came.
#[derive(Default)]
struct Waiters {
    /// Those that wait no longer are passed over.
    order: VecDeque<FlowId>,
    /// Until when each waits at the latest.
    until: HashMap<FlowId, Timestamp>,
}

impl Waiters {
    /// Who came first of those that still wait.
    fn first(&mut self) -> Option<FlowId> {
        while let Some(flow) = self.order.front() {
            if self.until.contains_key(flow) {
                return Some(*flow);
            }
            self.order.pop_front();
        }
        None
    }

    /// Passes over those whose time is over, but for `asking`: they are about to be told so, or stand still.
    fn expire(&mut self, now: Timestamp, asking: FlowId) {
        while let Some(flow) = self.first().filter(|flow| *flow != asking && self.until[flow] <= now) {
            self.until.remove(&flow);
        }
    }

    fn join(&mut self, flow: FlowId, until: Timestamp) {
        if self.until.insert(flow, until).is_none() {
            self.order.push_back(flow);
        }
    }
}

/// Who asks for states.
pub(crate) struct Asked<'a> {
    pub(crate) flow: FlowId,
    /// Whose coins are chosen, those of the first before those of the next.
    pub(crate) owners: &'a [PublicKey],
    pub(crate) now: Timestamp,
    /// How long it may wait.
    pub(crate) patience: Duration,
}

/// What became of a selection.
pub(crate) enum Selected {
    /// These states are held for the flow.
    States(Vec<StateAndRef>),
    /// Others hold what is missing, or came first: the flow is woken, and asks again at this time at the latest.
    Later(Timestamp),
    Refused(FlowError),
}

/// Coins and the shelf of each, their sum, and the sum of those that other flows hold.
type Taken = (Vec<(usize, Coin)>, u128, u128);

/// What is wanted of one shelf.
struct Asking<'a> {
    flow: FlowId,
    owner: &'a PublicKey,
    selection: &'a Selection,
    /// How much is missing yet.
    wanted: u128,
}

/// Coins of one asset and owner in the order of the store, some way into it. When they run out the next are read, and after the
/// last the first again: those that were given back or arrived meanwhile.
#[derive(Default)]
struct Shelf {
    coins: VecDeque<Coin>,
    cursor: Option<CoinCursor>,
    /// Consumed since the shelf was filled.
    gone: HashSet<StateRef>,
}

impl Vault {
    /// Who holds this state?
    pub(crate) fn holder(&self, state: &StateRef) -> Option<FlowId> {
        self.held.get(state).copied()
    }

    /// How many states are held.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Holds a state for a flow; `false` when another flow holds it.
    pub(crate) fn hold(&mut self, flow: FlowId, state: StateRef) -> bool {
        match self.held.entry(state) {
            std::collections::hash_map::Entry::Occupied(held) => *held.get() == flow,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(flow);
                self.of_flow.entry(flow).or_default().push(state);
                true
            }
        }
    }

    /// Lets go of some states of a flow.
    pub(crate) fn release(&mut self, flow: FlowId, states: &[StateRef]) {
        for state in states {
            if self.held.get(state) == Some(&flow) {
                self.held.remove(state);
            }
        }
        if let Some(all) = self.of_flow.get_mut(&flow) {
            all.retain(|state| !states.contains(state));
        }
        self.wake_first();
    }

    /// Lets go of all that a flow holds and waits for, which has ended.
    pub(crate) fn release_all(&mut self, flow: FlowId, failed: bool) {
        self.waiting.retain(|_, waiters| {
            waiters.until.remove(&flow);
            !waiters.until.is_empty()
        });
        for state in self.of_flow.remove(&flow).unwrap_or_default() {
            if self.held.get(&state) == Some(&flow) {
                self.held.remove(&state);
                if failed {
                    if self.doubtful.len() == DOUBTFUL {
                        self.doubtful.clear();
                    }
                    self.doubtful.insert(state);
                }
            }
        }
    }

    /// These states are durably consumed.
    pub(crate) fn consumed(&mut self, states: &[StateRef]) {
        for state in states {
            self.doubtful.remove(state);
        }
        for shelf in self.shelves.values_mut().filter(|shelf| !shelf.coins.is_empty()) {
            shelf.gone.extend(states.iter().copied());
        }
    }

    /// Has the first flow of each line ask again: coins may have arrived or become free.
    pub(crate) fn wake_first(&mut self) {
        self.ready.extend(self.waiting.values_mut().filter_map(Waiters::first));
    }

    /// Are there flows that are to ask again?
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The flows that are to ask again.
    pub(crate) fn take_ready(&mut self) -> Vec<FlowId> {
        std::mem::take(&mut self.ready)
    }

    /// Holds coins of an asset that are worth enough, the first that are free. A flow that may wait does so while others
    /// hold what is missing, behind those that wait already.
    pub(crate) fn select(
        &mut self,
        store: &dyn Store,
        asked: &Asked<'_>,
        selection: &Selection,
    ) -> Result<Selected, StoreError> {
        if !selection.wait {
            return Ok(self
                .choose(store, asked, selection)?
                .map_or_else(Selected::Refused, Selected::States));
        }
        let line: Line = (selection.asset.clone(), selection.notary.clone());
        let mut waiters = self.waiting.remove(&line).unwrap_or_default();
        waiters.expire(asked.now, asked.flow);
        let own = waiters.until.get(&asked.flow).copied();
        let until = own.unwrap_or_else(|| asked.now.saturating_add(asked.patience));
        let may_wait = until > asked.now;
        let is_first = waiters.first().is_none_or(|first| first == asked.flow);
        let chosen = (is_first || !may_wait).then(|| self.choose(store, asked, selection));
        let later = match &chosen {
            None => true,
            Some(Ok(Err(FlowError::Insufficient { available, held, .. }))) => {
                *held > 0 && may_wait && available.saturating_add(*held) >= selection.quantity
            }
            // A flow in trouble asks again by itself, and keeps its place.
            Some(Err(_)) => own.is_some() && may_wait,
            Some(Ok(_)) => false,
        };
        if later {
            waiters.join(asked.flow, until);
        } else {
            waiters.until.remove(&asked.flow);
            self.ready.extend(waiters.first());
        }
        if !waiters.until.is_empty() {
            self.waiting.insert(line, waiters);
        }
        Ok(match chosen {
            Some(Err(error)) => return Err(error),
            Some(Ok(Ok(states))) => Selected::States(states),
            Some(Ok(Err(refusal))) if !later => Selected::Refused(refusal),
            _ => Selected::Later(until),
        })
    }

    fn choose(
        &mut self,
        store: &dyn Store,
        asked: &Asked<'_>,
        selection: &Selection,
    ) -> Result<Result<Vec<StateAndRef>, FlowError>, StoreError> {
        let mut shelves: Vec<(PublicKey, Shelf)> = Vec::with_capacity(asked.owners.len());
        for owner in asked.owners {
            let place = (selection.asset.clone(), *owner);
            shelves.push((*owner, self.shelves.remove(&place).unwrap_or_default()));
        }
        let taken = self.take(&mut shelves, store, asked, selection);
        let result = match taken {
            Ok((coins, sum, _)) if sum >= u128::from(selection.quantity) && selection.quantity > 0 => {
                let states: Vec<_> = coins
                    .into_iter()
                    .map(|(_, coin)| StateAndRef { state: coin.state, reference: coin.reference })
                    .collect();
                for state in &states {
                    let ours = self.hold(asked.flow, state.reference);
                    assert!(ours, "a coin that was free is held by its finder");
                }
                Ok(Ok(states))
            }
            Ok((coins, sum, held)) => {
                for (place, coin) in coins.into_iter().rev() {
                    shelves[place].1.coins.push_front(coin);
                }
                Ok(Err(FlowError::Insufficient {
                    asset: selection.asset.clone(),
                    wanted: selection.quantity,
                    available: u64::try_from(sum).unwrap_or(u64::MAX),
                    held: u64::try_from(held).unwrap_or(u64::MAX),
                }))
            }
            Err(error) => Err(error),
        };
        for (owner, shelf) in shelves {
            // An asset without coins keeps no memory.
            if !shelf.coins.is_empty() || shelf.cursor.is_some() {
                self.shelves.insert((selection.asset.clone(), owner), shelf);
            }
        }
        result
    }

    /// Takes free coins off the shelves until they are enough or all have been seen, doubtful ones last: the coins and
    /// the shelf of each, their sum, and the sum of those that other flows hold.
    fn take(
        &self,
        shelves: &mut [(PublicKey, Shelf)],
        store: &dyn Store,
        asked: &Asked<'_>,
        selection: &Selection,
    ) -> Result<Taken, StoreError> {
        let (mut coins, mut sum, mut held) = (Vec::new(), 0_u128, 0_u128);
        let mut doubtful = VecDeque::new();
        let mut failure = None;
        for (place, (owner, shelf)) in shelves.iter_mut().enumerate() {
            let wanted = u128::from(selection.quantity).saturating_sub(sum);
            if wanted == 0 && place > 0 {
                break;
            }
            let mut aside = Vec::new();
            let asking = Asking { flow: asked.flow, owner, selection, wanted };
            let taken = self.take_good(shelf, store, &asking, &mut aside);
            doubtful.extend(aside.into_iter().map(|coin| (place, coin)));
            match taken {
                Ok((good, worth, others)) => {
                    coins.extend(good.into_iter().map(|coin| (place, coin)));
                    sum += worth;
                    held += others;
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        while failure.is_none()
            && sum < u128::from(selection.quantity)
            && let Some((place, coin)) = doubtful.pop_front()
        {
            sum += u128::from(coin.quantity);
            coins.push((place, coin));
        }
        for (place, coin) in doubtful {
            shelves[place].1.coins.push_back(coin);
        }
        let Some(error) = failure else { return Ok((coins, sum, held)) };
        for (place, coin) in coins {
            shelves[place].1.coins.push_back(coin);
        }
        Err(error)
    }

    fn take_good(
        &self,
        shelf: &mut Shelf,
        store: &dyn Store,
        asking: &Asking<'_>,
        doubtful: &mut Vec<Coin>,
    ) -> Result<(Vec<Coin>, u128, u128), StoreError> {
        let Asking { flow, owner, selection, wanted } = asking;
        let mut coins = Vec::new();
        let (mut sum, mut held) = (0_u128, 0_u128);
        let mut seen = HashSet::new();
        // From here to the end of the store, and then once from its beginning.
        let mut wrapped = shelf.cursor.is_none() && shelf.coins.is_empty();
        loop {
            while let Some(coin) = shelf.coins.pop_front() {
                if shelf.gone.contains(&coin.reference) || !seen.insert(coin.reference) {
                    continue;
                }
                // Databases from before schema 3 do not tell encumbered states apart.
                if coin.state.encumbrance.is_some() {
                    continue;
                }
                if selection.notary.as_ref().is_some_and(|notary| coin.state.notary != *notary) {
                    continue;
                }
                if let Some(holder) = self.held.get(&coin.reference) {
                    if holder != flow {
                        held += u128::from(coin.quantity);
                    }
                    continue;
                }
                if self.doubtful.contains(&coin.reference) {
                    doubtful.push(coin);
                    continue;
                }
                sum += u128::from(coin.quantity);
                coins.push(coin);
                if sum >= *wanted {
                    return Ok((coins, sum, held));
                }
            }
            shelf.gone.clear();
            let more = match store.coins(&selection.asset, owner, shelf.cursor, SHELF) {
                Ok(more) => more,
                Err(error) => {
                    shelf.coins.extend(coins);
                    return Err(error);
                }
            };
            shelf.cursor = more.last().map(|coin| coin.cursor);
            let ended = more.len() < SHELF;
            shelf.coins.extend(more);
            if ended {
                shelf.cursor = None;
                if wrapped && shelf.coins.is_empty() {
                    return Ok((coins, sum, held));
                }
                if wrapped && shelf.coins.iter().all(|coin| seen.contains(&coin.reference)) {
                    shelf.coins.clear();
                    return Ok((coins, sum, held));
                }
                wrapped = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
