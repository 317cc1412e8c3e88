//! Which flows a node can run.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::encode;
use crate::{Context, FlowError, Outcome, Session};

/// A flow that a user starts.
///
/// It is ordinary async Rust with one rule: what it does may depend on nothing but its arguments and what its
/// [`Context`] tells it. After a crash it is run again from the beginning, its context answers as it did before, and it
/// goes on where it was. No clock, no randomness, no hash map's order, no other future than the context's.
pub trait Flow: 'static {
    /// The name it is started by.
    const NAME: &'static str;
    /// The version of its code. A change of what it does, in which order, is a new version.
    const VERSION: u32;
    /// Each argument's name and what it is, for people.
    const ARGUMENTS: &'static [(&'static str, &'static str)];
    /// What it is started with.
    type Arguments: BorshSerialize + BorshDeserialize + DeserializeOwned + Send;
    /// What it comes to.
    type Output: BorshSerialize + BorshDeserialize + Serialize + Send;

    /// The flow.
    fn run(
        context: Context,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Self::Output, FlowError>> + Send;
}

/// A flow that answers another node's flow.
pub trait Responder: 'static {
    /// The name of the flow that it answers.
    const ANSWERS: &'static str;
    /// The version of that flow's code that it can talk to.
    const VERSION: u32;

    /// The flow; `session` is the one that the other flow opened.
    fn run(context: Context, session: Session) -> impl Future<Output = Result<(), FlowError>> + Send;
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Begin = fn(Context, &[u8]) -> Result<Running, FlowError>;
type Answer = fn(Context, Session) -> Running;

struct Installed {
    begin: Begin,
    arguments: &'static [(&'static str, &'static str)],
    from_json: fn(&serde_json::Value) -> Result<Vec<u8>, FlowError>,
    to_json: fn(&[u8]) -> Result<serde_json::Value, FlowError>,
}

/// The flows installed at a node, by name and version.
#[derive(Default)]
pub struct Registry {
    flows: BTreeMap<&'static str, BTreeMap<u32, Installed>>,
    responders: BTreeMap<&'static str, BTreeMap<u32, Answer>>,
}

/// An installed flow, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// Its installed versions.
    pub versions: Vec<u32>,
    /// The arguments of the newest version, and what they are.
    pub arguments: &'static [(&'static str, &'static str)],
}

impl Registry {
    /// No flows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Installs a flow.
    ///
    /// # Panics
    /// That version is installed already.
    #[must_use]
    pub fn flow<F: Flow>(mut self) -> Self {
        let installed = Installed {
            begin: |context, arguments| {
                let arguments = borsh::from_slice(arguments).map_err(|error| FlowError::Refused {
                    reason: format!("the arguments of `{}` cannot be read: {error}", F::NAME),
                })?;
                Ok(Box::pin(async move { F::run(context, arguments).await.map(|output| encode(&output)) }))
            },
            arguments: F::ARGUMENTS,
            from_json: |value| {
                // By way of the text, since every deserialiser reads that and the error says where.
                let text = value.to_string();
                serde_json::from_str::<F::Arguments>(&text).map(|arguments| encode(&arguments)).map_err(
                    |error| FlowError::Refused { reason: format!("the arguments of `{}`: {error}", F::NAME) },
                )
            },
            to_json: |bytes| {
                let output: F::Output = borsh::from_slice(bytes).map_err(FlowError::invalid)?;
                serde_json::to_value(output).map_err(FlowError::invalid)
            },
        };
        let before = self.flows.entry(F::NAME).or_default().insert(F::VERSION, installed);
        assert!(before.is_none(), "version {} of flow {} is installed twice", F::VERSION, F::NAME);
        self
    }

    /// Installs a flow that answers.
    ///
    /// # Panics
    /// That version is installed already.
    #[must_use]
    pub fn responder<R: Responder>(mut self) -> Self {
        let before = self.install_answer::<R>();
        assert!(
            before.is_none(),
            "version {} of the answer to {} is installed twice",
            R::VERSION,
            R::ANSWERS
        );
        self
    }

    /// Installs a flow that answers in place of the one that answers the same version of the same flow.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub fn replacing<R: Responder>(mut self) -> Self {
        let before = self.install_answer::<R>();
        assert!(before.is_some(), "nothing answers version {} of {}", R::VERSION, R::ANSWERS);
        self
    }

    fn install_answer<R: Responder>(&mut self) -> Option<Answer> {
        let answer: Answer =
            |context, session| Box::pin(async move { R::run(context, session).await.map(|()| Vec::new()) });
        self.responders.entry(R::ANSWERS).or_default().insert(R::VERSION, answer)
    }

    /// Every flow that a user can start.
    pub fn descriptions(&self) -> Vec<Description> {
        self.flows
            .iter()
            .map(|(name, versions)| Description {
                name,
                versions: versions.keys().copied().collect(),
                arguments: versions.values().next_back().map_or(&[], |newest| newest.arguments),
            })
            .collect()
    }

    /// The newest version of a flow.
    ///
    /// # Errors
    /// No such flow.
    pub fn newest(&self, name: &str) -> Result<(&'static str, u32), FlowError> {
        let unknown = || FlowError::UnknownFlow { flow: name.chars().take(100).collect() };
        let (name, versions) = self.flows.get_key_value(name).ok_or_else(unknown)?;
        versions.keys().next_back().map(|version| (*name, *version)).ok_or_else(unknown)
    }

    /// Arguments given as JSON, encoded for the newest version of a flow.
    ///
    /// # Errors
    /// No such flow; arguments that are missing, unknown or not of their type.
    pub fn arguments_from_json(&self, name: &str, value: &serde_json::Value) -> Result<Vec<u8>, FlowError> {
        let (name, version) = self.newest(name)?;
        (self.installed(name, version)?.from_json)(value)
    }

    /// Arguments given as JSON, encoded for a version of a flow.
    ///
    /// # Errors
    /// The flow or version is not installed; arguments that are missing, unknown or not of their type.
    pub fn arguments_in_version(
        &self,
        name: &str,
        version: u32,
        value: &serde_json::Value,
    ) -> Result<Vec<u8>, FlowError> {
        (self.installed(name, version)?.from_json)(value)
    }

    /// A flow's output as JSON.
    ///
    /// # Errors
    /// The flow or version is not installed, or the bytes are not its output.
    pub fn output_to_json(
        &self,
        name: &str,
        version: u32,
        output: &[u8],
    ) -> Result<serde_json::Value, FlowError> {
        (self.installed(name, version)?.to_json)(output)
    }

    fn installed(&self, name: &str, version: u32) -> Result<&Installed, FlowError> {
        find(&self.flows, name, version)
    }

    pub(crate) fn begin(
        &self,
        name: &str,
        version: u32,
        context: Context,
        arguments: &[u8],
    ) -> Result<Running, FlowError> {
        (self.installed(name, version)?.begin)(context, arguments)
    }

    pub(crate) fn has(&self, name: &str, version: u32) -> Result<(), FlowError> {
        self.installed(name, version).map(|_| ())
    }

    pub(crate) fn answers(&self, name: &str, version: u32) -> Result<&'static str, FlowError> {
        find(&self.responders, name, version)?;
        let (name, _) = self.responders.get_key_value(name).expect("it was found");
        Ok(name)
    }

    pub(crate) fn answer(
        &self,
        name: &str,
        version: u32,
        context: Context,
        session: Session,
    ) -> Result<Running, FlowError> {
        Ok(find(&self.responders, name, version)?(context, session))
    }
}

fn find<'a, T>(
    installed: &'a BTreeMap<&'static str, BTreeMap<u32, T>>,
    name: &str,
    version: u32,
) -> Result<&'a T, FlowError> {
    let versions = installed
        .get(name)
        .ok_or_else(|| FlowError::UnknownFlow { flow: name.chars().take(100).collect() })?;
    versions.get(&version).ok_or_else(|| FlowError::Version {
        flow: name.to_owned(),
        wanted: version,
        installed: versions.keys().map(u32::to_string).collect::<Vec<_>>().join(", "),
    })
}
