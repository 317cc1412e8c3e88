use super::*;
use crate::fixture::reference;

#[test]
fn the_crate_stays_pure() {
    // Whatever comes in here must read no clock, draw no random numbers and do no IO.
    let manifest = include_str!("../Cargo.toml");
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap();
    let (section, _) = rest.split_once("\n[").unwrap();
    let names: Vec<_> =
        section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect();
    assert_eq!(names, ["borsh", "serde", "serde_json", "tally-crypto", "tally-ledger", "thiserror"]);
}

#[test]
fn ids_and_references_have_one_text_each() {
    let state = reference(0xab);
    let text = state.to_string();
    assert_eq!(text, format!("{}:171", "ab".repeat(32)));
    assert_eq!(text.parse(), Ok(state));
    assert_eq!(serde_json::to_string(&state).unwrap(), format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<StateRef>(&format!("\"{text}\"")).unwrap(), state);
    let id = "ab".repeat(32);
    for bad in [
        "",
        ":",
        &id,
        &format!("{id}:"),
        &format!("{id}:01"),
        &format!("{id}:+1"),
        &format!("{id}:-1"),
        &format!("{id}:4294967296"),
    ] {
        assert_eq!(bad.parse::<StateRef>(), Err(StateRefError::Form), "{bad}");
    }
    assert!(matches!("ab:1".parse::<StateRef>(), Err(StateRefError::Transaction(_))));
    assert_eq!(format!("{id}:0").parse::<StateRef>().unwrap().index, 0);
    assert_ne!(*AttachmentId::of(b"x").hash(), tally_crypto::hash(b"x"), "a domain of its own");
}

#[test]
fn contract_names_are_short_and_plain() {
    for good in ["a", "tally.cash", "x-1.y", "abcdefghijklmnopqrstuvwxyz12345"] {
        let name: ContractName = good.parse().unwrap();
        assert_eq!(name.to_string(), good);
        assert_eq!(borsh::from_slice::<ContractName>(&encode(&name)).unwrap(), name);
        assert_eq!(encode(&name), encode(good));
    }
    for bad in ["", "1a", ".a", "Cash", "cash ", "käse", "a_b", "abcdefghijklmnopqrstuvwxyz123456"] {
        assert_eq!(bad.parse::<ContractName>(), Err(ContractNameError), "{bad}");
        assert!(borsh::from_slice::<ContractName>(&encode(bad)).is_err(), "{bad}");
    }
    assert!(ContractName::literal("a") < ContractName::literal("ab"));
    let names: Vec<_> = Contracts::shipped().names().map(ToString::to_string).collect();
    assert_eq!(names, ["tally.bond", "tally.cash", "tally.iou", "tally.oracle"]);
}

#[test]
fn a_time_window_holds_its_first_moment_and_not_its_last() {
    let at = Timestamp::from_millis;
    let window = TimeWindow::between(at(5), at(7));
    assert_eq!([4, 5, 6, 7].map(|t| window.contains(at(t))), [false, true, true, false]);
    assert!(
        TimeWindow::starting(at(5)).contains(Timestamp::MAX) && !TimeWindow::starting(at(5)).contains(at(4))
    );
    assert!(
        TimeWindow::ending(at(5)).contains(Timestamp::EPOCH) && !TimeWindow::ending(at(5)).contains(at(5))
    );
    assert!(TimeWindow::between(at(5), at(6)).is_well_formed());
    assert!(!TimeWindow::between(at(5), at(5)).is_well_formed());
    assert!(!TimeWindow { from: None, until: None }.is_well_formed());
    let second = std::time::Duration::from_secs(1);
    assert_eq!((at(500).saturating_sub(second), at(500).saturating_add(second)), (at(0), at(1_500)));
    assert_eq!(at(u64::MAX - 1).saturating_add(second), Timestamp::MAX);
    assert_eq!((at(1_500).since(at(500)), at(1).since(at(2))), (second, std::time::Duration::ZERO));
    assert_eq!(serde_json::to_string(&at(5)).unwrap(), "5");
}
