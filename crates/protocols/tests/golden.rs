//! What a flow of a version journals and says does not change: a flow in flight finishes on the code that began it, and
//! nodes of two releases understand each other.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod scenarios;

use scenarios::{SCENARIOS, name, network};
use tally_crypto::hash;

/// For each flow under test: the hash of all that was journaled, and of all that was received.
const KNOWN: &[(&str, &str, &str)] = &[
    ("issue", "fcbc9561b110cb20", "ec2bd03bf86b935f"),
    ("pay", "a63adcbfcb206296", "2cf0f28c73cfd8fb"),
    ("pay with a long history", "1731aacf38fb8ef6", "c6f4f3758e401e53"),
    ("pay too much", "787c33a50dc8b652", "ec2bd03bf86b935f"),
    ("pay at a rate", "83c987779f7193ae", "9083379dc8882fae"),
    ("exit", "1f4e0e79995aa9cf", "d73c7f9149f97087"),
    ("create an IOU", "de2ac8350a3b6a9c", "54f2d47cd8ca46d3"),
    ("settle an IOU", "2e16445de146ba8e", "686e162c82a5ca24"),
    ("issue a bond", "9a99c6f7925c6839", "4ec63ae6537ffe1a"),
    ("transfer a bond", "65c439b7faae9c96", "37d7ca85ed2efef6"),
    ("deliver versus payment", "188d54adcc985375", "b7d253037856be6e"),
    ("redeem a bond", "a40c5ae21d23960f", "7c53d774f44723ec"),
    ("ask for a rate", "1d90dd7a4ad52df8", "42b87f3300797fcf"),
    ("ping", "e31688a0f79e69e2", "e0cbff1c4a9b5d0d"),
];

#[test]
fn journals_and_messages_are_those_of_their_version() {
    let mut found = Vec::new();
    for scenario in SCENARIOS {
        let mut network = network(false, scenario.prepare);
        let before = network.journal().len();
        let received = |network: &tally_protocols::testing::Network| {
            network
                .names()
                .iter()
                .flat_map(|who| network.received(who))
                .map(|message| message.bytes)
                .collect::<Vec<_>>()
        };
        let arguments = (scenario.arguments)(&network);
        network.start_as(&name(scenario.who), scenario.flow, arguments, "the flow under test").unwrap();
        network.settle();
        let mut journal = Vec::new();
        for unit in &network.journal()[before..] {
            journal.extend(borsh::to_vec(&(&unit.name, unit.version, unit.number, &unit.steps)).unwrap());
        }
        let messages = borsh::to_vec(&received(&network)).unwrap();
        let short = |bytes: &[u8]| hash(bytes).to_string()[..16].to_owned();
        found.push((scenario.what, short(&journal), short(&messages)));
    }
    let table: String = found
        .iter()
        .map(|(what, journal, messages)| format!("    ({what:?}, {journal:?}, {messages:?}),\n"))
        .collect();
    let known = found.iter().map(|(what, journal, messages)| (*what, journal.as_str(), messages.as_str()));
    assert!(
        known.eq(KNOWN.iter().copied()),
        "what a flow journals or says has changed. In a release that needs a new version of the flow, with the old one \
         still installed; before the first release it needs this table:\n{table}"
    );
}
