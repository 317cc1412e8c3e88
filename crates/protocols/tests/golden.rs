//! What a flow of a version journals and says does not change: a flow in flight finishes on the code that began it, and
//! nodes of two releases understand each other.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod scenarios;

use scenarios::{SCENARIOS, name, network};
use tally_crypto::hash;

/// For each flow under test: the hash of all that was journaled, and of all that was received.
const KNOWN: &[(&str, &str, &str)] = &[
    ("issue", "fcbc9561b110cb20", "ec2bd03bf86b935f"),
    ("pay", "7941fdcea69233b2", "405110928d8c6692"),
    ("pay with a long history", "bbb119e136d87b76", "8340633ebe2d5fe5"),
    ("pay too much", "787c33a50dc8b652", "ec2bd03bf86b935f"),
    ("pay at a rate", "21e58a8690d8ff93", "6fd8cf6aa72b7d1e"),
    ("exit", "333b43fe62c02248", "56a26dc3874b726c"),
    ("create an IOU", "40ca057341968b7b", "99895aafa314c761"),
    ("settle an IOU", "879231bb88af529f", "7463b9be5a147b33"),
    ("issue a bond", "61db7dc76746b2f0", "058bdfaabab64b60"),
    ("transfer a bond", "82247951bced73f7", "9311c5ce8cac890b"),
    ("deliver versus payment", "01f5c362b90e92b4", "1b51385d270c9318"),
    ("redeem a bond", "6e56a94209836d9a", "61dc7e2cbc7fc85f"),
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
