//! A network of nodes in one process, each with its own sockets, threads and database.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tally_contracts::Name;
use tally_identity::{
    ClusterSpec, Identity, Network, NodeSpec, bootstrap_clustered, server_name, system_now, tls,
};
use tally_node::{
    CashSection, ClusterSection, ConsentSection, DatabaseSection, FlowsSection, HttpSection, IdentitySection,
    MessagingSection, NetworkSection, OracleSection, RpcSection, Running, Settings,
};
use tally_ops::shutdown::Shutdown;
use tally_rpc::{Client, FlowEnd, Outcome, Permissions, StartFlow, User, Users};

pub(crate) fn name(organisation: &str) -> Name {
    format!("O={organisation}, L=London, C=GB").parse().expect("a name")
}

pub(crate) struct World {
    _directory: tempfile::TempDir,
    pub(crate) network: Network,
    ports: Vec<u16>,
    /// Where members of a clustered notary listen for each other.
    links: BTreeMap<Name, SocketAddr>,
    pub(crate) nodes: Vec<Option<Running>>,
    /// Whether nodes accept parameters by themselves that only name more notaries, from their next start on.
    pub(crate) accept_extensions: bool,
}

impl World {
    /// Parties by name; the last is a notary of this kind.
    #[allow(dead_code, reason = "not every test has a notary of one node")]
    pub(crate) fn new(parties: &[&str], validating: bool) -> Self {
        Self::make(parties, Some(validating), &[])
    }

    /// Parties by name, and the members of a clustered notary after them.
    #[allow(dead_code, reason = "not every test has a clustered notary")]
    pub(crate) fn clustered(parties: &[&str], members: &[&str]) -> Self {
        Self::make(&[parties, members].concat(), None, members)
    }

    fn make(parties: &[&str], notary: Option<bool>, members: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = tally_ops::ports::free(parties.len()).expect("free ports");
        let specs: Vec<NodeSpec> = parties
            .iter()
            .zip(&ports)
            .enumerate()
            .map(|(index, (party, port))| NodeSpec {
                name: name(party),
                notary: notary.filter(|_| index + 1 == parties.len()),
                address: format!("127.0.0.1:{port}").parse().expect("an address"),
            })
            .collect();
        let members: Vec<Name> = members.iter().map(|member| name(member)).collect();
        let links = tally_ops::ports::free(members.len()).expect("free ports");
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let links = members.iter().cloned().zip(links.into_iter().map(at)).collect();
        let clusters: Vec<ClusterSpec> = if members.is_empty() {
            Vec::new()
        } else {
            vec![ClusterSpec { name: name("Cluster"), members }]
        };
        let network =
            bootstrap_clustered(directory.path(), &specs, &clusters, system_now()).expect("a network");
        for node in &network.nodes {
            let user = User::new("operator", "secret", Permissions::All).expect("a user");
            Users::new([user])
                .expect("users")
                .write(&node.directory.join("users.toml"))
                .expect("a users file");
        }
        let mut world = Self {
            _directory: directory,
            network,
            ports,
            links,
            nodes: parties.iter().map(|_| None).collect(),
            accept_extensions: false,
        };
        for index in 0..parties.len() {
            world.start(index);
        }
        world
    }

    pub(crate) fn settings(&self, index: usize) -> Settings {
        Settings {
            identity: IdentitySection::default(),
            network: NetworkSection {
                folder: Some(self.network.map.clone()),
                service: None,
                service_ca: None,
                refresh_ms: 1000,
                accept_extensions: self.accept_extensions,
            },
            messaging: MessagingSection {
                listen: format!("127.0.0.1:{}", self.ports[index]).parse().expect("an address"),
                queue_bytes: 64 << 20,
            },
            rpc: RpcSection {
                listen: "127.0.0.1:0".parse().expect("an address"),
                users_file: "users.toml".into(),
                threads: 2,
            },
            http: HttpSection { listen: Some("127.0.0.1:0".parse().expect("an address")) },
            database: DatabaseSection::default(),
            flows: FlowsSection { threads: 4, ..FlowsSection::default() },
            oracle: OracleSection::default(),
            cash: CashSection::default(),
            consent: ConsentSection::default(),
            cluster: ClusterSection::among(&self.network.nodes[index].party.name, &self.links),
        }
    }

    pub(crate) fn directory(&self, index: usize) -> &Path {
        &self.network.nodes[index].directory
    }

    pub(crate) fn start(&mut self, index: usize) {
        let settings = self.settings(index);
        let running = Running::start(self.directory(index), &settings, &Shutdown::new());
        self.nodes[index] = Some(running.unwrap_or_else(|error| panic!("{error:?}")));
    }

    pub(crate) fn stop(&mut self, index: usize) {
        self.nodes[index].take().expect("it runs").stop().expect("an orderly end");
    }

    pub(crate) async fn client(&self, index: usize) -> Client {
        let running = self.nodes[index].as_ref().expect("it runs");
        let party = &self.network.nodes[index].party;
        let now = system_now();
        let passphrase =
            std::fs::read_to_string(&self.network.nodes[index].passphrase).expect("the passphrase");
        let identity =
            Identity::load(&self.network.nodes[index].identity, passphrase.trim_end().as_bytes(), now);
        let trust = identity.expect("an identity").trust().clone();
        let tls = tls::rpc_client(&trust).expect("a client's TLS");
        let address = running.addresses().rpc.to_string();
        Client::connect(&address, &server_name(&party.name).to_str(), Arc::clone(&tls), "operator", "secret")
            .await
            .expect("a client")
    }
}

pub(crate) fn start(flow: &str, arguments: &Value, request_id: Option<&str>) -> StartFlow {
    let arguments: Map<String, Value> = arguments.as_object().expect("an object").clone();
    StartFlow { flow: flow.to_owned(), arguments, request_id: request_id.map(str::to_owned) }
}

pub(crate) fn output(end: FlowEnd) -> Value {
    match end.outcome {
        Outcome::Completed(value) => value,
        Outcome::Failed(failure) => panic!("the flow failed: {failure}"),
        Outcome::Unknown(fate) => panic!("the flow's fate is unknown: {fate:?}"),
    }
}
