//! What the two parties have after an attack, counted from transactions alone.

use super::super::load::{Party, World};
use super::super::support::PATIENCE;
use super::{ISSUED, NOTARIES, PARTIES, VICTIMS};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tally_contracts::cash::{self, CashState};
use tally_contracts::{SignedTransaction, StateRef, TransactionId};
use tally_rpc::{ClientError, RefusalCode, StateStatus, VaultState};

/// A transaction, as far as a party has it.
async fn transaction(party: &Party, id: &str) -> Option<SignedTransaction> {
    match party.insist(|client| async move { client.transaction(id).await }).await {
        Ok(found) => Some(SignedTransaction::decode(&found.encoded).unwrap()),
        Err(ClientError::Refused(refusal)) if refusal.code == RefusalCode::TransactionUnknown => None,
        Err(error) => panic!("{id}: {error:?}"),
    }
}

/// The vaults, once nothing changes in them: what was paid to the hostile node may still be on its way.
async fn still(world: &World) -> Vec<Vec<VaultState>> {
    let deadline = Instant::now() + PATIENCE;
    let mut before = Vec::new();
    loop {
        let mut vaults = Vec::new();
        for party in 0..PARTIES {
            vaults.push(world.vault(party).await);
        }
        if vaults == before {
            return vaults;
        }
        assert!(Instant::now() < deadline, "the vaults go on changing");
        before = vaults;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// That the cash of each party adds up: in the parties' vaults and at the hostile node there is what was issued, and the
/// vaults have what the transactions say.
pub(super) async fn check(world: &World) {
    let vaults = still(world).await;
    world.check_spending(&vaults).await;

    // Everything that a party has, with everything that it builds on.
    let mut known: BTreeMap<TransactionId, SignedTransaction> = BTreeMap::new();
    for (party, vault) in world.parties.iter().zip(&vaults) {
        let ids = vault.iter().flat_map(|state| {
            state.reference.split(':').next().into_iter().chain(state.consumed_by.as_deref())
        });
        let mut open: BTreeSet<String> = ids.map(str::to_owned).collect();
        while let Some(id) = open.pop_first() {
            if known.contains_key(&id.parse::<TransactionId>().unwrap()) {
                continue;
            }
            let found = transaction(party, &id).await.unwrap_or_else(|| panic!("{} lacks {id}", party.name));
            found.check_complete().unwrap_or_else(|error| panic!("{id}: {error}"));
            open.extend(found.transaction().inputs().iter().map(|input| input.transaction.to_string()));
            known.insert(found.id(), found);
        }
    }
    let mut spent: BTreeMap<StateRef, TransactionId> = BTreeMap::new();
    for (id, found) in &known {
        for input in found.transaction().inputs() {
            let before = spent.insert(*input, *id);
            assert_eq!(before, None, "{input} is spent by {id} as well");
        }
    }
    let mut keys: BTreeMap<String, &str> = BTreeMap::new();
    for (party, label) in world.parties.iter().zip(VICTIMS) {
        let info = party.insist(|client| async move { client.node_info().await }).await.unwrap();
        keys.insert(info.key, label);
    }
    // By issuer and owner; whoever is no party is the hostile node.
    let mut unspent: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for found in known.values() {
        for output in found.transaction().outputs_with_refs() {
            if spent.contains_key(&output.reference) || output.state.contract != cash::NAME {
                continue;
            }
            let state: CashState = output.state.read().unwrap();
            let Some(issuer) = keys.get(&state.issuer.key.to_string()) else { continue };
            let owner = keys.get(&state.owner.to_string()).copied().unwrap_or("others");
            *unspent.entry((issuer, owner)).or_default() += state.amount.quantity();
        }
    }
    println!("{} transactions, cash by issuer and owner: {unspent:?}", known.len());
    for issuer in &VICTIMS[..PARTIES] {
        let total: u64 = unspent.iter().filter(|((of, _), _)| of == issuer).map(|(_, sum)| sum).sum();
        assert_eq!(total, ISSUED * NOTARIES.len() as u64, "cash of {issuer}: {unspent:?}");
        for (party, vault) in world.parties.iter().zip(&vaults) {
            let asset = format!("USD@{}", super::name(issuer));
            let own = vault.iter().filter(|state| {
                state.status == StateStatus::Unconsumed
                    && state.owner.as_ref() == Some(&party.name)
                    && state.asset.as_ref() == Some(&asset)
            });
            let sum: u64 = own.map(|state| state.quantity.unwrap()).sum();
            let owner = party.directory.label();
            assert_eq!(unspent.get(&(*issuer, owner.as_str())), Some(&sum), "{asset} at {owner}");
        }
    }
}
