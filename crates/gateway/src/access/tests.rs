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
        id: NetworkId(7),
        participants: ["TSCBDEFF", "ALPHDEFF"].map(participant).into(),
        assets: Vec::new(),
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 1000,
    }
}

fn entry(name: &str, token: &Token) -> UserEntry {
    UserEntry::with_token(name, Some("ALPHDEFF"), &[Role::Read], token)
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
    for wrong in [other.reveal(), "", "tally_", &token.reveal()[1..], &token.reveal().to_uppercase()] {
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
    assert!(matches!(with(&|user| user.institution = Some("X".into())), AccessError::Institution { .. }));
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
fn users_of_an_institution_share_what_was_agreed_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.toml");
    let tokens = [(); 3].map(|()| Token::generate().unwrap());
    let mut file = AccessFile::default();
    for (name, institution, token) in
        [("a", Some("ALPHDEFF"), &tokens[0]), ("b", Some("ALPHDEFF"), &tokens[1]), ("c", None, &tokens[2])]
    {
        file.grant(UserEntry::with_token(name, institution, &[Role::Read], token)).unwrap();
    }
    file.limit("ALPHDEFF", Some(Quota { per_second: 1, burst: 10 }));
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

    file.limit("NOWHDEFF", Some(Quota::default()));
    assert!(matches!(Access::new(&file, &network()), Err(AccessError::NoInstitution(_))));
    file.institution.push(file.institution[0].clone());
    assert!(matches!(
        file.write(&path).and_then(|()| AccessFile::read(&path)),
        Err(AccessError::InstitutionTwice(_))
    ));
}
