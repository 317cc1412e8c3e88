use super::*;
use crate::{Aside, Consent, Produced, Recorded, Sort, StateQuery, Status, StoreError, VaultState};
use std::collections::HashMap;
use tally_contracts::{ContractName, Party, State, Summary, VersionRange};
use tally_crypto::Hash;

pub(super) const TESTS: &[Test] = &[
    shows_what_was_recorded,
    consumes_once,
    selects_coins,
    sets_states_aside,
    keeps_consents,
    keeps_the_order_of_time,
    answers_as_a_naive_vault_does,
    moves_pages_over_changes,
    refuses_queries_that_have_no_answer,
];

/// A query for every state.
pub(super) fn everything() -> StateQuery {
    StateQuery { status: Status::All, page_size: 1000, ..StateQuery::default() }
}

/// An output that is money.
pub(super) struct Coin {
    owner: u8,
    asset: &'static str,
    quantity: u64,
}

impl Coin {
    pub(super) fn new(owner: u8, asset: &'static str, quantity: u64) -> Self {
        Self { owner, asset, quantity }
    }
}

fn state(contract: &str, notary: &str, data: Vec<u8>) -> State {
    State {
        contract: contract.parse().expect("a contract's name"),
        versions: VersionRange { from: 1, to: 2 },
        notary: Party { name: name(notary), key: key(200) },
        encumbrance: None,
        consumers: vec![key(201)],
        data,
    }
}

fn coin(coin: &Coin) -> (State, Summary) {
    let summary = Summary {
        kind: "cash".to_owned(),
        participants: vec![key(coin.owner)],
        owner: Some(key(coin.owner)),
        asset: Some(coin.asset.to_owned()),
        quantity: Some(coin.quantity),
        linear_id: None,
        details: serde_json::json!({ "amount": coin.quantity }),
    };
    (state("cash", "Notary", coin.quantity.to_le_bytes().to_vec()), summary)
}

/// A transaction with coins as its outputs.
pub(super) fn recorded(id: u8, millis: u64, coins: &[Coin], consumed: &[StateRef]) -> Write {
    let produced = coins.iter().zip(0..).map(|(value, index)| {
        let (state, summary) = coin(value);
        Produced { index, state, summary }
    });
    Write::Transaction(Recorded {
        id: transaction(id),
        bytes: vec![id; 100 + usize::from(id)],
        consumed: consumed.to_vec(),
        produced: produced.collect(),
        at: at(millis),
    })
}

/// All pages of a query.
fn pages(subject: &Subject<'_>, query: &StateQuery) -> Vec<VaultState> {
    let (mut query, mut seen) = (query.clone(), Vec::new());
    loop {
        let page = subject.store().states(&query).expect("a page");
        assert!(page.states.len() <= if query.page_size == 0 { 100 } else { query.page_size as usize });
        seen.extend(page.states);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return seen,
        }
    }
}

fn references(states: &[VaultState]) -> Vec<(u8, u32)> {
    states.iter().map(|state| (state.reference.transaction.as_bytes()[0], state.reference.index)).collect()
}

fn shows_what_was_recorded(subject: &Subject<'_>) {
    let odd = Summary {
        kind: "o\0dd".to_owned(),
        participants: vec![key(1), key(1), key(2)],
        owner: None,
        asset: Some(String::new()),
        quantity: Some(u64::MAX),
        linear_id: Some(Hash::from_bytes([5; 32])),
        details: serde_json::json!({ "text": "a\0b", "list": [1, null, {}] }),
    };
    let plain = Summary {
        kind: String::new(),
        participants: Vec::new(),
        owner: Some(key(3)),
        asset: None,
        quantity: None,
        linear_id: None,
        details: serde_json::Value::Null,
    };
    let large = State { encumbrance: Some(7), ..state("a.b", "Other", vec![9; 60_000]) };
    let produced = vec![
        Produced { index: 0, state: state("cash", "Notary", Vec::new()), summary: odd },
        Produced { index: (1 << 20) - 1, state: large, summary: plain },
    ];
    let write = Recorded {
        id: transaction(1),
        bytes: vec![1; 3],
        consumed: vec![state_ref(250, 0)],
        produced: produced.clone(),
        at: at(77),
    };
    subject.apply(&[Write::Transaction(write.clone())]);
    subject.reopen();
    let expected: Vec<VaultState> = produced
        .into_iter()
        .map(|produced| VaultState {
            reference: state_ref(1, produced.index),
            state: produced.state,
            summary: produced.summary,
            recorded: at(77),
            consumed: None,
            aside: (produced.index > 0).then_some(Aside::Encumbered),
        })
        .collect();
    assert_eq!(pages(subject, &everything()), expected);
    let asked = [
        state_ref(1, (1 << 20) - 1),
        state_ref(1, 1),
        state_ref(2, 0),
        state_ref(1, 1 << 20),
        state_ref(1, 0),
    ];
    let found = subject.store().vault(&asked).expect("they read");
    assert_eq!(found, [Some(expected[1].clone()), None, None, None, Some(expected[0].clone())]);
    let beyond = vec![Produced { index: 1 << 20, ..write.produced[0].clone() }];
    let refused = subject.store().apply(&[Write::Transaction(Recorded {
        id: transaction(2),
        produced: beyond,
        ..write
    })]);
    assert!(matches!(refused, Err(StoreError::Range { .. })), "{refused:?}");
    assert_eq!(subject.store().transaction(transaction(2)).expect("it reads"), None);
}

fn consumes_once(subject: &Subject<'_>) {
    let usd = |owner| Coin::new(owner, "USD", 5);
    subject.apply(&[recorded(1, 10, &[usd(1), usd(2)], &[])]);
    // Consumes a state of the same batch, one that the vault does not have, and one whose transaction is unknown.
    subject.apply(&[
        recorded(2, 20, &[usd(3)], &[state_ref(1, 0), state_ref(1, 9), state_ref(99, 0)]),
        recorded(3, 30, &[], &[state_ref(2, 0)]),
    ]);
    subject.reopen();
    let states = pages(subject, &everything());
    let consumed: Vec<_> = states.iter().map(|state| state.consumed).collect();
    assert_eq!(references(&states), [(1, 0), (1, 1), (2, 0)]);
    assert_eq!(consumed, [Some((transaction(2), at(20))), None, Some((transaction(3), at(30)))]);
    let before = subject.seen();
    for writes in [
        vec![recorded(4, 40, &[usd(1)], &[state_ref(1, 1), state_ref(1, 0)])],
        vec![recorded(5, 50, &[], &[state_ref(1, 1)]), recorded(6, 50, &[], &[state_ref(1, 1)])],
    ] {
        let twice = subject.store().apply(&writes);
        match twice {
            Err(StoreError::Twice { state, by, again }) => {
                let first = (state == state_ref(1, 0), by == transaction(2), again == transaction(4));
                let second = state == state_ref(1, 1) && by != again;
                assert!(first == (true, true, true) || second, "{state} {by} {again}");
            }
            other => panic!("{other:?}"),
        }
        assert!(subject.seen() == before, "a refused batch left something: {writes:?}");
    }
    assert_eq!(subject.store().transaction(transaction(5)).expect("it reads"), None);
}

fn selects_coins(subject: &Subject<'_>) {
    for id in 1..=20 {
        let n = u64::from(id);
        let coins = [Coin::new(1, "USD", n), Coin::new(1, "EUR", n), Coin::new(2, "USD", u64::MAX - n)];
        subject.apply(&[recorded(id, 5, &coins, &[])]);
    }
    subject.apply(&[recorded(30, 6, &[], &[state_ref(4, 0), state_ref(5, 2)])]);
    let all = subject.store().coins("USD", &key(1), None, usize::MAX).expect("coins");
    let expected: Vec<u64> = (1..=20).filter(|n| *n != 4).collect();
    assert_eq!(all.iter().map(|coin| coin.quantity).collect::<Vec<_>>(), expected);
    assert!(
        all.iter().all(|coin| coin.state.data == coin.quantity.to_le_bytes() && coin.reference.index == 0)
    );
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let some = subject.store().coins("USD", &key(1), after, 4).expect("coins");
        assert!(some.len() <= 4);
        let Some(last) = some.last() else { break };
        after = Some(last.cursor);
        seen.extend(some);
    }
    assert_eq!(seen, all);
    let other = subject.store().coins("USD", &key(2), None, 100).expect("coins");
    assert_eq!((other.len(), other[0].quantity), (19, u64::MAX - 1));
    for (asset, owner) in [("GBP", 1), ("USD", 9), ("", 1)] {
        assert!(subject.store().coins(asset, &key(owner), None, 10).expect("none").is_empty());
    }
}

/// A stranger's encumbered coin and one that its notary has given away are shown and never chosen.
fn sets_states_aside(subject: &Subject<'_>) {
    let usd = |quantity| coin(&Coin::new(1, "USD", quantity));
    let produced = (0..4_u32).map(|index| {
        let (mut state, summary) = usd(u64::from(index) + 1);
        state.encumbrance = (index == 1).then_some(0);
        Produced { index, state, summary }
    });
    let at_once = transaction(9);
    subject.apply(&[
        Write::Transaction(Recorded {
            id: transaction(1),
            bytes: vec![1],
            consumed: Vec::new(),
            produced: produced.collect(),
            at: at(1),
        }),
        Write::Lost { state: state_ref(1, 2), by: at_once },
        // Not in the vault, and beyond what can be.
        Write::Lost { state: state_ref(1, 7), by: at_once },
        Write::Lost { state: state_ref(70, 0), by: at_once },
        Write::Lost { state: state_ref(1, u32::MAX), by: at_once },
    ]);
    // The first word stays, and what is consumed is not lost.
    subject.apply(&[
        recorded(2, 2, &[], &[state_ref(1, 3)]),
        Write::Lost { state: state_ref(1, 2), by: transaction(8) },
        Write::Lost { state: state_ref(1, 3), by: transaction(8) },
    ]);
    subject.reopen();
    let coins = subject.store().coins("USD", &key(1), None, 10).expect("coins");
    assert_eq!(coins.iter().map(|coin| coin.reference).collect::<Vec<_>>(), [state_ref(1, 0)]);
    let asides = [None, Some(Aside::Encumbered), Some(Aside::Lost { by: at_once }), None];
    assert_eq!(pages(subject, &everything()).iter().map(|state| state.aside).collect::<Vec<_>>(), asides);
    let mine = StateQuery {
        owner: Some(key(1)),
        asset: Some("USD".to_owned()),
        descending: true,
        page_size: 2,
        ..StateQuery::default()
    };
    assert_eq!(references(&pages(subject, &mine)), [(1, 2), (1, 1), (1, 0)]);
    // The transaction that took it arrives after all.
    subject.apply(&[recorded(9, 3, &[], &[state_ref(1, 2)])]);
    let found = subject.store().vault(&[state_ref(1, 2)]).expect("they read").remove(0).expect("it is there");
    assert_eq!(found.consumed, Some((at_once, at(3))));
}

fn keeps_consents(subject: &Subject<'_>) {
    let consent = |flow: u8, quantity| Consent {
        flow: [flow; 16],
        rule: "a rule".to_owned(),
        quantity,
        at: at(u64::from(flow)),
    };
    let used = [consent(1, 5), consent(2, u64::MAX), consent(3, 0)];
    subject.apply(&used.clone().map(Write::Consented));
    subject.reopen();
    assert_eq!(subject.store().consents(at(0)).expect("they read"), used);
    assert_eq!(subject.store().consents(at(2)).expect("they read"), used[1..]);
}

fn keeps_the_order_of_time(subject: &Subject<'_>) {
    let usd = [Coin::new(1, "USD", 5)];
    for (id, millis) in [(1, 100), (2, 300), (3, 200)] {
        subject.apply(&[recorded(id, millis, &usd, &[])]);
    }
    subject.reopen();
    subject.apply(&[recorded(4, 250, &usd, &[]), recorded(5, 400, &usd, &[])]);
    let times: Vec<u64> =
        pages(subject, &everything()).iter().map(|state| state.recorded.as_millis()).collect();
    assert_eq!(times, [100, 300, 300, 300, 400]);
    let between = |from: Option<u64>, until: Option<u64>| {
        let bounds =
            StateQuery { recorded_from: from.map(at), recorded_until: until.map(at), ..everything() };
        references(&pages(subject, &bounds)).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(between(Some(300), None), [2, 3, 4, 5]);
    assert_eq!(between(Some(301), Some(400)), [0; 0]);
    assert_eq!(between(None, Some(300)), [1]);
    assert_eq!(between(Some(100), Some(400)), [1, 2, 3, 4]);
    assert_eq!(between(Some(401), None), [0; 0]);
    assert_eq!(between(Some(u64::MAX), Some(u64::MAX)), [0; 0]);
}

/// Numbers that look random and are the same each time.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // xorshift64 (Marsaglia, 2003)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(super) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn byte(&mut self, bound: u8) -> u8 {
        self.below(bound.into()).to_le_bytes()[0]
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("small")].clone()
    }
}

fn random_state(random: &mut Random) -> (State, Summary) {
    if random.one_in(2) {
        let value = Coin::new(random.byte(4), random.pick(&["USD", "EUR", "GBP"]), random.below(50));
        return coin(&value);
    }
    let summary = Summary {
        kind: random.pick(&["iou", "bond"]).to_owned(),
        participants: (0..random.below(3)).map(|_| key(random.byte(6))).collect(),
        owner: random.one_in(3).then(|| key(random.byte(6))),
        asset: random.one_in(3).then(|| random.pick(&["USD", "ISIN"]).to_owned()),
        quantity: random.one_in(2).then(|| random.below(50)),
        linear_id: random.one_in(2).then(|| Hash::from_bytes([random.byte(8); 32])),
        details: serde_json::Value::Null,
    };
    let mut state =
        state(random.pick(&["iou", "bond"]), random.pick(&["Notary", "Other"]), vec![random.byte(255)]);
    state.encumbrance = random.one_in(3).then_some(0);
    (state, summary)
}

fn random_query(random: &mut Random, vault: &[VaultState]) -> StateQuery {
    let kinds = ["cash", "iou", "bond", "none"];
    let contracts: [ContractName; 3] = ["cash", "iou", "none"].map(|name| name.parse().expect("a name"));
    let sort = if random.one_in(4) { Sort::Quantity } else { Sort::Recorded };
    let status = match sort {
        Sort::Quantity => Status::Unconsumed,
        Sort::Recorded => {
            random.pick(&[Status::Unconsumed, Status::Unconsumed, Status::Consumed, Status::All])
        }
    };
    let last = vault.last().map_or(0, |state| state.recorded.as_millis());
    let some = |random: &mut Random| (0..random.below(40)).map(|_| random.pick(vault).reference).collect();
    StateQuery {
        status,
        contract: random.one_in(6).then(|| random.pick(&contracts)),
        kind: random.one_in(4).then(|| random.pick(&kinds).to_owned()),
        notary: random.one_in(6).then(|| name(random.pick(&["Notary", "Other", "None"]))),
        participant: random.one_in(4).then(|| key(random.byte(7))),
        owner: random.one_in(4).then(|| key(random.byte(7))),
        asset: random.one_in(3).then(|| random.pick(&["USD", "EUR", "ISIN", "None"]).to_owned()),
        quantity_from: random.one_in(5).then(|| random.below(40)),
        quantity_to: random.one_in(5).then(|| 10 + random.below(40)),
        recorded_from: random.one_in(5).then(|| at(random.below(last + 2))),
        recorded_until: random.one_in(5).then(|| at(random.below(last + 2))),
        linear_id: random.one_in(8).then(|| Hash::from_bytes([random.byte(9); 32])),
        references: random.one_in(8).then(|| some(random)),
        sort,
        descending: random.one_in(2),
        cursor: None,
        page_size: random.pick(&[1, 3, 10, 50, 0, 1000]),
    }
}

fn answers_as_a_naive_vault_does(subject: &Subject<'_>) {
    let mut random = Random::new(20_221_121);
    let mut vault: Vec<VaultState> = Vec::new();
    let mut places: HashMap<StateRef, usize> = HashMap::new();
    let mut live: Vec<StateRef> = Vec::new();
    for batch in 0..20_u64 {
        let mut writes = Vec::new();
        for nth in 0..10_u64 {
            let id =
                TransactionId::from_bytes(*tally_crypto::hash(&(batch * 10 + nth).to_le_bytes()).as_bytes());
            let time = at(batch * 7 + nth / 4);
            let consumed: Vec<StateRef> = (0..random.below(3))
                .filter_map(|_| {
                    let index = usize::try_from(random.below(live.len().max(1) as u64)).expect("small");
                    (index < live.len()).then(|| live.swap_remove(index))
                })
                .collect();
            for reference in &consumed {
                vault[places[reference]].consumed = Some((id, time));
            }
            let produced: Vec<Produced> = (0..2)
                .map(|index| {
                    let (state, summary) = random_state(&mut random);
                    Produced { index: index * 3, state, summary }
                })
                .collect();
            for Produced { index, state, summary } in produced.clone() {
                let reference = StateRef { transaction: id, index };
                places.insert(reference, vault.len());
                live.push(reference);
                let aside = Aside::of(&state);
                vault.push(VaultState { reference, state, summary, recorded: time, consumed: None, aside });
            }
            writes.push(Write::Transaction(Recorded { id, bytes: vec![1], consumed, produced, at: time }));
        }
        subject.store().apply(&writes).expect("it applies");
    }
    let mut answered = 0;
    for _ in 0..400 {
        let query = random_query(&mut random, &vault);
        let mut expected: Vec<VaultState> =
            vault.iter().filter(|state| query.matches(state)).cloned().collect();
        if query.sort == Sort::Quantity {
            expected.sort_by_key(|state| (state.summary.quantity, places[&state.reference]));
        }
        if query.descending {
            expected.reverse();
        }
        let found = pages(subject, &query);
        assert!(
            found == expected,
            "{query:?} gives {:?} instead of {:?}",
            references(&found),
            references(&expected)
        );
        answered += usize::from(!expected.is_empty());
    }
    assert!(answered > 150, "only {answered} queries had an answer");
}

/// What is recorded or consumed between pages neither repeats a state nor hides one that matched all the time.
fn moves_pages_over_changes(subject: &Subject<'_>) {
    for id in 1..=60 {
        subject.apply(&[recorded(id, u64::from(id), &[Coin::new(1, "USD", u64::from(id % 7))], &[])]);
    }
    let fresh = std::cell::Cell::new(100);
    for sort in [Sort::Recorded, Sort::Quantity] {
        for descending in [false, true] {
            let mut query = StateQuery { sort, descending, page_size: 4, ..StateQuery::default() };
            let before = references(&pages(subject, &query));
            let mut seen = Vec::new();
            loop {
                let page = subject.store().states(&query).expect("a page");
                seen.extend(references(&page.states));
                // The state that was shown last goes, another comes.
                let gone: Vec<StateRef> =
                    page.states.last().map(|state| state.reference).into_iter().collect();
                let id = fresh.replace(fresh.get() + 1);
                subject.apply(&[recorded(id, u64::from(id), &[Coin::new(1, "USD", 3)], &gone)]);
                match page.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
            let mut unique = seen.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), seen.len(), "a state was shown twice");
            let kept: Vec<_> = seen.into_iter().filter(|reference| before.contains(reference)).collect();
            assert_eq!(kept, before);
        }
    }
}

fn refuses_queries_that_have_no_answer(subject: &Subject<'_>) {
    for id in 1..=5 {
        subject.apply(&[recorded(id, 1, &[Coin::new(1, "USD", 1)], &[])]);
    }
    let ask = |query: &StateQuery| subject.store().states(query);
    let first = StateQuery { page_size: 2, ..StateQuery::default() };
    let cursor = ask(&first).expect("a page").next.expect("there is more");
    let goes_on = StateQuery { cursor: Some(cursor.clone()), page_size: 3, ..first.clone() };
    assert_eq!(ask(&goes_on).expect("another size").states.len(), 3);
    let damaged = [String::new(), "zz".to_owned(), format!("{cursor}0"), cursor.replace(&cursor[..2], "!!")];
    for cursor in damaged {
        let refused = ask(&StateQuery { cursor: Some(cursor), ..first.clone() });
        assert!(matches!(refused, Err(StoreError::Cursor { .. })), "{refused:?}");
    }
    for other in [
        StateQuery { descending: true, ..goes_on.clone() },
        StateQuery { status: Status::All, ..goes_on.clone() },
        StateQuery { asset: Some("USD".to_owned()), ..goes_on },
    ] {
        assert!(matches!(ask(&other), Err(StoreError::Cursor { .. })), "{other:?}");
    }
    let many = Some(vec![state_ref(1, 0); 1001]);
    for other in [
        StateQuery { references: many, ..first.clone() },
        StateQuery { sort: Sort::Quantity, status: Status::All, ..first },
    ] {
        assert!(matches!(ask(&other), Err(StoreError::Query { .. })), "{other:?}");
    }
}
