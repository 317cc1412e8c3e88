use super::quota::Bucket;
use super::*;
use std::path::Path;
use std::time::Instant;
use tally_crypto::SigningKey;
use tally_ledger::{NetworkId, Participant, SignaturePolicy};

fn network() -> Network {
    let participant = |bic: &str| Participant {
        bic: bic.to_owned(),
        name: "O=X,C=DE".to_owned(),
        key: SigningKey::from_seed([1; 32]).public_key(),
        settlement_floors: Vec::new(),
    };
    Network {
        id: NetworkId([7; 32]),
        participants: ["TSCBDEFF", "ALPHDEFF", "BETAFRPP"].map(participant).into(),
        assets: Vec::new(),
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 1000,
    }
}

fn bic(text: &str) -> Bic {
    Bic::parse(text).unwrap()
}

fn entry(name: &str, token: &Token) -> UserEntry {
    UserEntry::with_token(name, Some(bic("ALPHDEFF")), &[Role::Read], token)
}

/// A user of that institution of [`network`]; the operator, where none is named.
pub(crate) fn user_of(institution: &str) -> User {
    let token = Token::generate().unwrap();
    let entry = UserEntry::with_token("user", Bic::parse(institution), &Role::ALL, &token);
    entry.user(&network()).unwrap()
}

const NOW: Timestamp = Timestamp(1_700_000_000_000);

#[test]
fn a_user_is_known_by_a_token_or_a_certificate_until_it_ends() {
    let (token, other) = (Token::generate().unwrap(), Token::generate().unwrap());
    let mut alice = entry("alice", &token);
    alice.expires = Some("2023-11-14T22:13:21Z".to_owned());
    let bob = UserEntry { token: None, certificate: Some(Fingerprint([7; 32])), ..entry("bob", &token) };
    let access =
        Access::new(&AccessFile { user: vec![alice, bob], ..AccessFile::default() }, &network()).unwrap();
    let found = access.by_token(token.reveal(), NOW).unwrap();
    assert_eq!((found.name.as_str(), found.scope), ("alice", Scope::Institution(ParticipantId(1))));
    assert!(found.acts_for(ParticipantId(1)) && !found.acts_for(ParticipantId(0)));
    let later = Timestamp(NOW.0 + 1000);
    assert!(matches!(access.by_token(token.reveal(), later), Err(Denied::Expired { .. })));
    let digits = token.reveal().strip_prefix("tally_").unwrap();
    let loud = token.reveal().replace(digits, &digits.to_uppercase());
    for wrong in [other.reveal(), "", "tally_", &token.reveal()[1..], digits, &loud] {
        assert_eq!(access.by_token(wrong, NOW).unwrap_err(), Denied::Unknown, "{wrong}");
    }
    assert_eq!(access.by_certificate(&[7; 32], NOW).unwrap().name, "bob");
    assert_eq!(access.by_certificate(&[8; 32], NOW).unwrap_err(), Denied::Unknown);
}

#[test]
fn what_is_kept_of_a_token_does_not_let_anybody_in() {
    let token = Token::generate().unwrap();
    let kept = token.kept().to_string();
    let access =
        Access::new(&AccessFile { user: vec![entry("alice", &token)], ..AccessFile::default() }, &network())
            .unwrap();
    assert!(access.by_token(&kept, NOW).is_err() && access.by_token(&format!("tally_{kept}"), NOW).is_err());
    assert!(!format!("{token:?}").contains(token.reveal()));
}

#[test]
fn a_file_that_does_not_fit_is_refused_with_the_reason() {
    let token = Token::generate().unwrap();
    let alice = entry("alice", &token);
    let refused = |user: Vec<UserEntry>| {
        let text = toml::to_string(&AccessFile { user, ..AccessFile::default() }).unwrap();
        let file = AccessFile::parse(&text, Path::new("access.toml"));
        file.and_then(|file| Access::new(&file, &network())).unwrap_err()
    };
    let with = |change: &dyn Fn(&mut UserEntry)| {
        let mut entry = alice.clone();
        change(&mut entry);
        refused(vec![entry])
    };
    assert!(matches!(refused(vec![alice.clone(), alice.clone()]), AccessError::Twice(_)));
    assert!(matches!(refused(vec![alice.clone(), entry("bob", &token)]), AccessError::Twice(_)));
    assert!(matches!(with(&|user| user.name = "a b".into()), AccessError::Name(_)));
    assert!(matches!(with(&|user| user.name.clear()), AccessError::Name(_)));
    assert!(matches!(with(&|user| user.token = None), AccessError::NoWayIn(_)));
    assert!(matches!(with(&|user| user.roles.clear()), AccessError::NoRoles(_)));
    assert!(matches!(with(&|user| user.roles.extend([Role::Operate])), AccessError::Operate(_)));
    let nowhere = Some(bic("NOWHDEFF"));
    assert!(matches!(with(&|user| user.institution = nowhere), AccessError::Institution { .. }));
    for what in [
        "[[user]]\nname = \"a\"\ninstitution = \"X\"\nroles = [\"read\"]\n",
        "[[institution]]\nbic = \"X\"\n",
    ] {
        let wrong = AccessFile::parse(what, Path::new("x"));
        assert!(matches!(wrong, Err(AccessError::Form { .. })), "{what}");
    }
    assert!(matches!(with(&|user| user.expires = Some("soon".into())), AccessError::Time { .. }));
    let unknown = AccessFile::parse("[[user]]\nname = \"a\"\nroles = [\"king\"]\n", Path::new("x"));
    assert!(matches!(unknown, Err(AccessError::Form { .. })));
}

#[test]
fn rights_are_granted_changed_and_taken_away_in_the_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("access.toml");
    let (first, second) = (Token::generate().unwrap(), Token::generate().unwrap());
    let mut file = AccessFile::default();
    file.grant(entry("alice", &first)).unwrap();
    file.grant(entry("bob", &second)).unwrap();
    file.write(&path).unwrap();
    assert_eq!(AccessFile::read(&path).unwrap(), file);
    let gate = Gate::open(path.clone(), AuditLog::beside(&path), network()).unwrap();
    assert!(gate.current().by_token(first.reveal(), NOW).is_ok());
    assert!(gate.latest().by_token(second.reveal(), NOW).is_ok());

    // Another's token changes nothing.
    let before = file.clone();
    assert!(matches!(file.grant(entry("alice", &second)), Err(AccessError::Twice(_))));
    assert_eq!(file, before);
    file.grant(UserEntry::with_token("alice", None, &Role::ALL, &first)).unwrap();
    assert_eq!(file.user[0].roles.len(), Role::ALL.len());
    assert!(file.revoke("bob") && !file.revoke("bob"));

    use std::os::unix::fs::PermissionsExt as _;
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(AccessFile::read(&path), Err(AccessError::Writable { mode: 0o666, .. })));
}

#[test]
fn a_file_that_changed_counts_soon_and_one_that_cannot_be_used_does_not() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("access.toml");
    let (alice, bob) = (Token::generate().unwrap(), Token::generate().unwrap());
    let mut file = AccessFile::default();
    file.grant(entry("alice", &alice)).unwrap();
    file.write(&path).unwrap();
    let gate = Gate::open(path.clone(), AuditLog::beside(&path), network()).unwrap();
    let comes_in = |token: &Token| gate.current().by_token(token.reveal(), NOW).is_ok();
    let eventually = |wanted: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !wanted() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    };
    file.revoke("alice");
    file.grant(entry("bob", &bob)).unwrap();
    file.write(&path).unwrap();
    eventually(&|| comes_in(&bob));
    assert!(!comes_in(&alice));

    let broken = home.path().join("broken");
    std::fs::write(&broken, "user = 1").unwrap();
    std::fs::rename(&broken, &path).unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        assert!(comes_in(&bob));
    }
}

#[test]
fn time_fills_a_quota_once() {
    let buckets = quota::Buckets::default();
    let now = Instant::now();
    let take = |cost, now| {
        let wanted = (Bucket::User("a".to_owned()), Quota { per_second: 10, burst: 20 });
        buckets.take([wanted], cost, now).is_ok()
    };
    assert!(take(20, now));
    let later = now + Duration::from_secs(1);
    assert!(take(10, later));
    assert!(!take(1, later));
    assert!(!take(1, now), "a clock that goes back fills nothing");
}

#[test]
fn what_one_bucket_refuses_is_taken_out_of_none() {
    let buckets = quota::Buckets::default();
    let now = Instant::now();
    let user = || (Bucket::User("a".to_owned()), Quota { per_second: 1, burst: 10 });
    let shared = (Bucket::User("everybody".to_owned()), Quota { per_second: 1, burst: 5 });
    assert!(buckets.take([user(), shared], 6, now).is_err());
    assert!(buckets.take([user()], 10, now).is_ok());
}

#[test]
fn a_quota_is_filled_with_time_and_what_is_refused_costs_nothing() {
    let buckets = quota::Buckets::default();
    let quota = Quota { per_second: 10, burst: 20 };
    let now = Instant::now();
    let take = |user: &str, cost, now| {
        buckets.take([(Bucket::User(user.to_owned()), quota)], cost, now).map_err(|(_, wait)| wait)
    };
    assert_eq!(take("a", 15, now), Ok(()));
    let wait = take("a", 10, now).unwrap_err();
    assert!((Duration::from_millis(500)..Duration::from_millis(510)).contains(&wait), "{wait:?}");
    assert_eq!(take("a", 5, now), Ok(()));
    assert_eq!(take("b", 20, now), Ok(()), "each has its own");
    assert_eq!(take("a", 10, now + Duration::from_secs(1)), Ok(()));
    assert!(take("a", 21, now + Duration::from_secs(3600)).is_err(), "more than ever fits");
    assert_eq!(take("a", 20, now + Duration::from_secs(3600)), Ok(()));
}

#[test]
fn a_user_who_asks_all_the_time_is_served_at_the_agreed_rate_again() {
    // Once a bucket is empty, a question every 10 us gains less than a thousandth of a request at a time.
    let buckets = quota::Buckets::default();
    let (now, quota) = (Instant::now(), Quota { per_second: 100, burst: 20 });
    let mut served = Vec::new();
    for step in 0..300_000_u32 {
        let at = Duration::from_micros(10) * step;
        if buckets.take([(Bucket::User("a".to_owned()), quota)], 1, now + at).is_ok() {
            served.push(at);
        }
    }
    // Three seconds at 100 a second, after the burst; the last one at 3 s has not come yet.
    assert_eq!(served.len(), 20 + 299);
    for pair in served[20..].windows(2) {
        assert_eq!(pair[1] - pair[0], Duration::from_millis(10));
    }
}

/// A request by a user whose institution shares a quota: after how many nanoseconds, which user, how much.
type Asked = (u64, bool, u32);

/// Buckets as the agreement has them: each nanosecond gives `per_second` billionths of a request, to the burst at most.
struct Model {
    levels: [u128; 3],
}

impl Model {
    const UNIT: u128 = 1_000_000_000;

    fn pass(&mut self, quotas: [Quota; 3], nanoseconds: u64) {
        for _ in 0..nanoseconds {
            for (level, quota) in self.levels.iter_mut().zip(quotas) {
                let full = u128::from(quota.burst) * Self::UNIT;
                *level = full.min(*level + u128::from(quota.per_second));
            }
        }
    }

    /// Takes from both or from neither.
    fn take(&mut self, user: usize, cost: u32) -> bool {
        let cost = u128::from(cost) * Self::UNIT;
        let fits = self.levels[user] >= cost && self.levels[2] >= cost;
        if fits {
            self.levels[user] -= cost;
            self.levels[2] -= cost;
        }
        fits
    }
}

proptest::proptest! {
    #[test]
    fn quotas_are_those_of_an_exact_model(
        rates in proptest::collection::vec((0..2_000_000_000_u32, 1..30_u32), 3),
        asked in proptest::collection::vec((0..400_u64, proptest::bool::ANY, 0..12_u32), 1..200),
    ) {
        let asked: Vec<Asked> = asked;
        let quota = |at: usize| Quota { per_second: rates[at].0, burst: rates[at].1 };
        let quotas = [quota(0), quota(1), quota(2)];
        let mut model = Model { levels: quotas.map(|quota| u128::from(quota.burst) * Model::UNIT) };
        let buckets = quota::Buckets::default();
        let bucket = |at: usize| match at {
            2 => (Bucket::Institution(bic("ALPHDEFF")), quotas[2]),
            _ => (Bucket::User(at.to_string()), quotas[at]),
        };
        let mut now = Instant::now();
        // A bucket is made, full, by the first who asks.
        for user in [0, 1] {
            proptest::prop_assert!(buckets.take([bucket(user), bucket(2)], 0, now).is_ok());
        }
        for (after, other, cost) in asked {
            let user = usize::from(other);
            now += Duration::from_nanos(after);
            model.pass(quotas, after);
            let taken = buckets.take([bucket(user), bucket(2)], cost, now);
            proptest::prop_assert_eq!(taken.is_ok(), model.take(user, cost), "{:?}", taken);
            let Err((short, wait)) = taken else { continue };
            // After the time that was named there is room in the bucket that was short, and not a nanosecond before.
            let at = if short == bucket(2).0 { 2 } else { user };
            let (cost, quota) = (u128::from(cost) * Model::UNIT, quotas[at]);
            if cost > u128::from(quota.burst) * Model::UNIT || quota.per_second == 0 {
                continue;
            }
            let gained = |wait: Duration| wait.as_nanos() * u128::from(quota.per_second);
            proptest::prop_assert!(model.levels[at] + gained(wait) >= cost);
            proptest::prop_assert!(model.levels[at] + gained(wait - Duration::from_nanos(1)) < cost);
        }
    }
}

#[test]
fn the_time_to_wait_is_not_cut_off() {
    let denied = |wait| Denied::Quota { user: "a".to_owned(), wait };
    for (wait, text) in [(1, "1 s"), (1000, "1 s"), (1001, "2 s"), (2500, "3 s")] {
        let told = denied(Duration::from_millis(wait)).to_string();
        assert!(told.ends_with(&format!("send it again in {text}")), "{wait}: {told}");
    }
}

#[test]
fn users_of_an_institution_share_what_was_agreed_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.toml");
    let tokens = [(); 3].map(|()| Token::generate().unwrap());
    let mut file = AccessFile::default();
    for (name, institution, token) in
        [("a", Some("ALPHDEFF"), &tokens[0]), ("b", Some("ALPHDEFF"), &tokens[1]), ("c", None, &tokens[2])]
    {
        file.grant(UserEntry::with_token(name, institution.map(bic), &[Role::Read], token)).unwrap();
    }
    file.limit(bic("ALPHDEFF"), Some(Quota { per_second: 1, burst: 10 }));
    file.write(&path).unwrap();
    let gate = Gate::open(path.clone(), AuditLog::beside(&path), network()).unwrap();
    let charge = |token: &Token, cost| {
        let user = gate.current().by_token(token.reveal(), Timestamp(0)).unwrap();
        gate.charge(&user, cost, Instant::now())
    };
    assert_eq!(charge(&tokens[0], 6), Ok(()));
    assert!(matches!(charge(&tokens[1], 6), Err(Denied::Quota { user, .. }) if user == "ALPHDEFF"));
    assert_eq!(charge(&tokens[1], 4), Ok(()), "what was refused cost nothing");
    assert_eq!(charge(&tokens[2], 100), Ok(()), "others have their own");
    let user = gate.current().by_token(tokens[0].reveal(), Timestamp(0)).unwrap();
    assert_eq!(user.most_at_once(), 10);

    file.limit(bic("NOWHDEFF"), Some(Quota::default()));
    assert!(matches!(Access::new(&file, &network()), Err(AccessError::NoInstitution(_))));
    file.institution.push(file.institution[0].clone());
    assert!(matches!(
        file.write(&path).and_then(|()| AccessFile::read(&path)),
        Err(AccessError::InstitutionTwice(_))
    ));
}

#[test]
fn a_head_office_has_two_spellings_and_is_one_institution() {
    let token = Token::generate().unwrap();
    let file = |user: &str, institution: &str| {
        let text = format!(
            "[[user]]\nname = \"a\"\ninstitution = \"{user}\"\nroles = [\"read\"]\ntoken = \"{}\"\n\
             [[institution]]\nbic = \"{institution}\"\nquota = {{ per_second = 1, burst = 3 }}\n",
            token.kept()
        );
        AccessFile::parse(&text, Path::new("x"))
    };
    for (user, institution) in
        [("ALPHDEFF", "ALPHDEFFXXX"), ("ALPHDEFFXXX", "ALPHDEFF"), ("ALPHDEFFXXX", "ALPHDEFFXXX")]
    {
        let mut file = file(user, institution).unwrap();
        let access = Access::new(&file, &network()).unwrap();
        let found = access.by_token(token.reveal(), NOW).unwrap();
        assert_eq!(found.scope, Scope::Institution(ParticipantId(1)), "{user}");
        assert_eq!(
            found.most_at_once(),
            3,
            "what was agreed with {institution} counts for the users of {user}"
        );
        file.limit(bic("ALPHDEFFXXX"), None);
        assert!(
            file.institution.is_empty(),
            "the limit of {institution} is taken away under its other spelling"
        );
    }
    let mut twice = file("ALPHDEFF", "ALPHDEFF").unwrap();
    twice.institution.push(InstitutionEntry { bic: bic("ALPHDEFFXXX"), quota: Quota::default() });
    let text = toml::to_string(&twice).unwrap();
    assert!(matches!(AccessFile::parse(&text, Path::new("x")), Err(AccessError::InstitutionTwice(_))));
    // A branch is another institution.
    let branch = file("ALPHDEFF001", "ALPHDEFF").unwrap();
    assert!(matches!(Access::new(&branch, &network()), Err(AccessError::Institution { .. })));
}
