//! Which states the flows of this node hold, and where the next coin comes from.

use std::collections::{HashMap, HashSet, VecDeque};

use tally_contracts::{PublicKey, StateAndRef, StateRef};
use tally_flows::{FlowError, FlowId, Selection};
use tally_store::{Coin, CoinCursor, Store, StoreError};

/// Coins read from the store in one go.
const SHELF: usize = 256;

/// States held, and coins at hand.
#[derive(Default)]
pub(crate) struct Vault {
    held: HashMap<StateRef, FlowId>,
    of_flow: HashMap<FlowId, Vec<StateRef>>,
    shelves: HashMap<String, Shelf>,
}

/// Coins of one asset in the order of the store, some way into it. When they run out the next are read, and after the
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
    }

    /// Lets go of all that a flow holds.
    pub(crate) fn release_all(&mut self, flow: FlowId) {
        for state in self.of_flow.remove(&flow).unwrap_or_default() {
            if self.held.get(&state) == Some(&flow) {
                self.held.remove(&state);
            }
        }
    }

    /// These states are durably consumed.
    pub(crate) fn consumed(&mut self, states: &[StateRef]) {
        for shelf in self.shelves.values_mut().filter(|shelf| !shelf.coins.is_empty()) {
            shelf.gone.extend(states.iter().copied());
        }
    }

    /// Holds coins of an asset that are worth enough, the first that are free.
    pub(crate) fn select(
        &mut self,
        store: &dyn Store,
        flow: FlowId,
        owner: &PublicKey,
        selection: &Selection,
    ) -> Result<Result<Vec<StateAndRef>, FlowError>, StoreError> {
        let mut shelf = self.shelves.remove(&selection.asset).unwrap_or_default();
        let taken = self.take(&mut shelf, store, owner, selection);
        let result = match taken {
            Ok((coins, sum, _)) if sum >= u128::from(selection.quantity) && selection.quantity > 0 => {
                let states: Vec<_> = coins
                    .into_iter()
                    .map(|coin| StateAndRef { state: coin.state, reference: coin.reference })
                    .collect();
                for state in &states {
                    let ours = self.hold(flow, state.reference);
                    assert!(ours, "a coin that was free is held by its finder");
                }
                Ok(Ok(states))
            }
            Ok((coins, sum, held)) => {
                for coin in coins.into_iter().rev() {
                    shelf.coins.push_front(coin);
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
        // An asset without coins keeps no memory.
        if !shelf.coins.is_empty() || shelf.cursor.is_some() {
            self.shelves.insert(selection.asset.clone(), shelf);
        }
        result
    }

    /// Takes free coins off the shelf until they are enough or all have been seen: the coins, their sum, and the sum of
    /// those that are held.
    fn take(
        &self,
        shelf: &mut Shelf,
        store: &dyn Store,
        owner: &PublicKey,
        selection: &Selection,
    ) -> Result<(Vec<Coin>, u128, u128), StoreError> {
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
                if selection.notary.as_ref().is_some_and(|notary| coin.state.notary.name != *notary) {
                    continue;
                }
                if self.held.contains_key(&coin.reference) {
                    held += u128::from(coin.quantity);
                    continue;
                }
                sum += u128::from(coin.quantity);
                coins.push(coin);
                if sum >= u128::from(selection.quantity) {
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
