use std::sync::mpsc::{Receiver, channel};

use tally_contracts::{Name, Scheme, SigningKey};
use tally_notary::{Commit, Member, Unfounded};

use super::*;

fn name(n: u8) -> Name {
    format!("O=Notary {n}, L=London, C=GB").parse().expect("a name")
}

fn key(n: u8) -> SigningKey {
    SigningKey::from_secret(Scheme::Ed25519, &[n; 32]).expect("a key")
}

fn cluster() -> Arc<Cluster> {
    let member = |n: u8| Member { name: name(n), voter: [n; 20], key: key(n).public_key() };
    Arc::new(Cluster::new(Hash::default(), (1..=4).map(member).collect()).expect("a cluster"))
}

fn transaction(n: u8) -> TransactionId {
    TransactionId::from_bytes([n; 32])
}

fn request(n: u8) -> Request {
    let commit = Commit {
        inputs: Vec::new(),
        references: Vec::new(),
        transaction: transaction(n),
        time_window: None,
        requester: name(1),
    };
    Request { commit, evidence: Vec::new() }
}

fn submit(asker: &Asker, n: u8) -> Receiver<Decision> {
    submit_for(asker, 9, n)
}

/// What node `by` asks this member for.
fn submit_for(asker: &Asker, by: u8, n: u8) -> Receiver<Decision> {
    let (sender, decision) = channel();
    asker.submit(&name(by), request(n), Box::new(move |decision| drop(sender.send(decision))));
    decision
}

#[test]
fn requests_under_way_are_bounded_and_each_is_told_its_end_once() {
    let config = Config { share_requests: 3, ..Config::default() };
    let (asker, questions) = Asker::new(&config);
    let waiting = [(8, 1), (9, 2)].map(|(by, n)| submit_for(&asker, by, n));
    assert_eq!(submit_for(&asker, 8, 3).try_recv(), Ok(Decision::Undecided(Undecided::Busy)));
    assert_eq!(asker.under_way(), 2);
    drop(questions);
    for decision in waiting {
        assert_eq!(decision.try_recv(), Ok(Decision::Undecided(Undecided::Stopping)));
        assert!(decision.try_recv().is_err(), "once");
    }
    assert_eq!(asker.under_way(), 0, "the room is there again");
    assert_eq!(submit(&asker, 4).try_recv(), Ok(Decision::Undecided(Undecided::Stopping)));
    let (asker, _questions) = Asker::new(&Config { share_bytes: 10, ..Config::default() });
    assert_eq!(submit(&asker, 5).try_recv(), Ok(Decision::Undecided(Undecided::Busy)), "of bytes");
}

#[test]
fn one_that_asks_without_end_leaves_room_for_others() {
    let (asker, _questions) = Asker::new(&Config { share_requests: 8, ..Config::default() });
    let hold = |by: u8, count: u8| {
        let asked = (0..count).map(|n| submit_for(&asker, by, n).try_recv());
        asked.filter(|decision| *decision != Ok(Decision::Undecided(Undecided::Busy))).count()
    };
    assert_eq!(hold(7, 100), 4, "one alone has half of the room");
    assert_eq!(hold(8, 100), 2, "the next has half of what is left");
    assert_eq!(hold(7, 1), 0);
    assert_eq!(hold(9, 100), 1);
    assert_eq!(asker.under_way(), 7);
    // The same of bytes.
    let bytes = tally_contracts::encode(&request(1)).len();
    let (asker, _questions) = Asker::new(&Config { share_bytes: 4 * bytes, ..Config::default() });
    let hold = |by: u8| {
        let asked = (0..100).map(|n| submit_for(&asker, by, n).try_recv());
        asked.filter(|decision| *decision != Ok(Decision::Undecided(Undecided::Busy))).count()
    };
    assert_eq!((hold(7), hold(8)), (2, 1));
}

struct Asked<'a> {
    desk: Desk<'a>,
    blamed: Receiver<Address>,
    asker: Asker,
    questions: Questions,
}

impl<'a> Asked<'a> {
    fn new(cluster: &'a Arc<Cluster>) -> Self {
        let (asker, questions) = Asker::new(&Config::default());
        let (blame, blamed) = channel();
        let ms = Duration::from_millis;
        let voters = cluster.members().iter().map(Member::address);
        let ways = Ways {
            cluster: Arc::clone(cluster),
            me: Client { name: name(1), conversation: 0 },
            own: Address::repeat_byte(1),
            intake: Arc::new(Intake::new(voters, 1 << 20)),
            lines: BTreeMap::new(),
            blame: Box::new(move |member| blame.send(member).expect("the test listens")),
            times: Times {
                decide: ms(10_000),
                ask_again: ms(1_000),
                heartbeat: ms(1_000),
                silence: ms(2_000),
                reconnect: ms(100),
            },
        };
        let desk = Desk { ways, cluster, open: BTreeMap::new(), by_id: HashMap::new(), next: 0 };
        Self { desk, blamed, asker, questions }
    }

    fn submit(&mut self, n: u8) -> Receiver<Decision> {
        let decision = submit(&self.asker, n);
        self.desk.submitted(self.questions.submissions.try_recv().expect("a submission"));
        decision
    }

    fn hear(&mut self, from: u8, word: Word) {
        self.desk.heard(Heard { from: Address::repeat_byte(from), conversation: 0, word });
    }

    fn answer(&mut self, from: u8, by: u8, outcome: Outcome) {
        let answer = Answer { transaction: transaction(1), outcome };
        let signed = TransactionForm.sign(self.desk.cluster, &key(by), answer);
        self.hear(from, Word::Answer(signed));
    }
}

#[tokio::test]
async fn members_answer_with_their_own_keys_and_the_others_are_blamed() {
    let cluster = cluster();
    let mut asked = Asked::new(&cluster);
    let decision = asked.submit(1);
    for from in [1, 2] {
        asked.answer(from, from, Outcome::Committed);
        asked.answer(from, from, Outcome::Committed);
    }
    asked.answer(3, 4, Outcome::Committed);
    assert_eq!(asked.blamed.try_recv(), Ok(Address::repeat_byte(3)), "another's answer");
    let other = Answer { transaction: transaction(2), outcome: Outcome::Committed };
    let mut forged = TransactionForm.sign(&cluster, &key(3), other);
    forged.answer.transaction = transaction(1);
    asked.hear(3, Word::Answer(forged));
    assert_eq!(asked.blamed.try_recv(), Ok(Address::repeat_byte(3)), "it does not verify");
    assert!(decision.try_recv().is_err());
    asked.answer(4, 4, Outcome::Committed);
    let Ok(Decision::Committed(attestation)) = decision.try_recv() else { panic!("three signed") };
    assert!(attestation.verify(&cluster, &TransactionForm));
    assert!(asked.blamed.try_recv().is_err() && asked.desk.by_id.is_empty());
    // What comes later finds nothing.
    asked.answer(3, 3, Outcome::Committed);
}

#[tokio::test]
async fn one_member_alone_rejects_nothing_and_that_there_is_no_room_is_no_end() {
    let cluster = cluster();
    let mut asked = Asked::new(&cluster);
    let decision = asked.submit(1);
    let reject = |reason| Word::Rejection { transaction: transaction(1), reason };
    let unfounded = |words: &str| reject(Rejection::Unfounded(Unfounded(words.to_owned())));
    (1..=4).for_each(|from| asked.hear(from, reject(Rejection::Busy)));
    asked.hear(3, unfounded("a lie"));
    asked.hear(3, unfounded("another lie"));
    asked.hear(4, reject(Rejection::TooLarge));
    let elsewhere = Word::Rejection { transaction: transaction(2), reason: Rejection::TooLarge };
    asked.hear(2, elsewhere);
    assert!(decision.try_recv().is_err(), "two different words");
    asked.hear(1, unfounded("no consent"));
    let own = Rejection::Unfounded(Unfounded("no consent".to_owned()));
    assert_eq!(decision.try_recv(), Ok(Decision::Rejected(own)), "in the words of this node's replica");
}
