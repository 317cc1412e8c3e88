//! Messaging as the node's core sees it, and the core as messaging sees it.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use tally_contracts::{Name, NetworkId, Party, PublicKey};
use tally_flows::{Notaries, Notary};
use tally_identity::{NetworkMap, server_name, tls};
use tally_messaging::{
    Acquaintance, Cause, Directory, Inbox, Messaging, Outbox, Position, QueueId, Refusal, Unfit,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::core::{Core, Post};
use crate::desk::Network;

/// The network map, as flows and messages ask it.
pub(crate) struct Map(pub(crate) Arc<NetworkMap>);

impl Network for Map {
    fn id(&self) -> NetworkId {
        self.0.trust().network()
    }

    fn party(&self, name: &Name) -> Option<Party> {
        self.0.party(name)
    }

    fn parties(&self) -> Vec<Name> {
        self.0.snapshot().nodes().map(|info| info.party.name.clone()).collect()
    }

    fn notaries(&self) -> Notaries {
        let snapshot = self.0.snapshot();
        let parameters = snapshot.parameters();
        // The network map's key names notaries. It does not make a party's signature count as a notary's.
        let is_notary = |party: &Party| snapshot.is_notary_key(party);
        let current = parameters.notaries.iter().filter(|notary| is_notary(&notary.party));
        let former = parameters.former_notaries.iter().filter(|party| is_notary(party));
        Notaries {
            current: current
                .map(|notary| Notary { party: notary.party.clone(), kind: notary.kind.clone() })
                .collect(),
            former: former.cloned().collect(),
        }
    }

    fn transaction_limit(&self) -> u64 {
        u64::from(self.0.parameters().max_transaction_bytes)
    }

    fn is_certified(&self, party: &Party) -> bool {
        self.0.is_certified(party)
    }

    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.0.keys_of(name)
    }

    fn name_of(&self, key: &PublicKey) -> Option<Name> {
        self.0.party_of_key(key).map(|party| party.name)
    }
}

impl Directory for Map {
    fn addresses(&self, peer: &Name) -> Option<Vec<String>> {
        self.0.info(peer).map(|info| info.addresses.iter().map(ToString::to_string).collect())
    }
}

/// The node's certificates and how it judges those of others.
pub(crate) struct Certificates(pub(crate) tls::Tls);

impl tally_messaging::Tls for Certificates {
    fn server(&self) -> Arc<ServerConfig> {
        self.0.peer_server()
    }

    fn client(&self) -> Arc<ClientConfig> {
        self.0.peer_client()
    }

    fn server_name(&self, peer: &Name) -> ServerName<'static> {
        server_name(peer)
    }

    fn peer_name(&self, chain: &[CertificateDer<'_>]) -> Result<Name, Cause> {
        Ok(tls::peer_name(chain)?)
    }
}

/// Where messages go and come from.
pub(crate) struct Desk(pub(crate) Arc<Core>);

impl Inbox for Desk {
    fn position(&self, peer: &Name, queue: QueueId) -> Position {
        self.0.position(peer, queue)
    }

    fn receive(&self, peer: &Name, queue: QueueId, messages: &mut Vec<(u64, Bytes)>) -> Result<(), Refusal> {
        self.0.receive(peer, queue, messages)
    }
}

impl Outbox for Desk {
    fn last(&self, peer: &Name) -> Result<u64, Cause> {
        Ok(self.0.last(peer))
    }

    fn after(&self, peer: &Name, number: u64, limit_bytes: usize) -> Result<Vec<(u64, Vec<u8>)>, Cause> {
        self.0.outbound(peer, number, limit_bytes)
    }

    fn acknowledged(&self, peer: &Name, queue: QueueId, up_to: u64) {
        self.0.acknowledged_over(peer, queue, up_to);
    }
}

impl Acquaintance for Desk {
    fn queue(&self, peer: &Name) -> QueueId {
        self.0.queue_to(peer)
    }

    fn standing(&self) -> Vec<u8> {
        self.0.standing()
    }

    fn meet(&self, peer: &Name, standing: &[u8], queue: Option<QueueId>) -> Result<(), Unfit> {
        self.0.meet(peer, standing, queue)
    }

    fn superseded(&self, peer: &Name, evidence: &[u8]) {
        self.0.superseded(peer, evidence);
    }

    fn astray(&self, peer: &Name, queue: QueueId) {
        self.0.astray(peer, queue);
    }
}

/// Durable messages on their way out; where messaging does not run they stay where they are.
///
/// It does not keep messaging alive: messaging holds the node, and the node holds this.
#[derive(Default)]
pub(crate) struct Mail(OnceLock<Weak<Messaging>>);

impl Mail {
    /// Messaging runs; said once.
    pub(crate) fn connect(&self, messaging: &Arc<Messaging>) {
        assert!(self.0.set(Arc::downgrade(messaging)).is_ok(), "messaging starts once");
    }

    fn messaging(&self) -> Option<Arc<Messaging>> {
        self.0.get()?.upgrade()
    }
}

impl Post for Mail {
    fn send(&self, messages: Vec<(Name, u64, Bytes)>) {
        if let Some(messaging) = self.messaging() {
            messaging.send_all(messages.iter().map(|(peer, number, bytes)| (peer, *number, bytes.clone())));
        }
    }

    fn acknowledge(&self, peer: &Name, queue: QueueId, up_to: u64) {
        if let Some(messaging) = self.messaging() {
            messaging.acknowledge(peer, queue, up_to);
        }
    }

    fn resume(&self) {
        if let Some(messaging) = self.messaging() {
            messaging.resume();
        }
    }

    fn begin_anew(&self, peer: Option<&Name>) {
        let Some(messaging) = self.messaging() else { return };
        match peer {
            Some(peer) => messaging.reset(peer),
            None => messaging.reset_all(),
        }
    }

    fn announce(&self) {
        if let Some(messaging) = self.messaging() {
            messaging.announce();
        }
    }
}
