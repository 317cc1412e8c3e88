use super::*;
use crate::permissions::Permissions;

fn gate(lifetime: Duration, clock: Clock) -> Arc<Gate> {
    let teller = User::new("teller", "staple", Permissions::Only([Permission::VaultRead].into())).unwrap();
    Arc::new(Gate::new(Users::new([teller]).unwrap(), lifetime, 2, clock))
}

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

async fn login(gate: &Arc<Gate>, name: &str, password: &str) -> Result<Token, RefusalCode> {
    gate.login(name.to_owned(), password.to_owned(), HERE).await.map_err(|refusal| refusal.code)
}

fn admit(gate: &Gate, value: &str) -> Result<String, RefusalCode> {
    gate.admit(Some(value.as_bytes())).map(|user| user.name().to_string()).map_err(|refusal| refusal.code)
}

#[tokio::test]
async fn a_token_admits_its_user_until_it_expires() {
    let now = Arc::new(Mutex::new(Instant::now()));
    let clock = {
        let now = now.clone();
        Clock::new(move || *now.lock().unwrap())
    };
    let gate = gate(Duration::from_secs(60), clock);
    let token = login(&gate, "teller", "staple").await.unwrap();
    assert_eq!(token.valid_for, Duration::from_secs(60));
    let bearer = format!("Bearer {}", token.text);
    assert_eq!(admit(&gate, &bearer), Ok("teller".to_owned()));
    assert_eq!(admit(&gate, &bearer.replace("Bearer", "bearer")), Ok("teller".to_owned()));
    assert_eq!(admit(&gate, &format!("{bearer}0")), Err(RefusalCode::TokenUnknown));
    assert_eq!(admit(&gate, &token.text), Err(RefusalCode::TokenMissing));
    assert_eq!(admit(&gate, "é"), Err(RefusalCode::TokenMissing));
    assert_eq!(gate.admit(None).map_err(|refusal| refusal.code), Err(RefusalCode::TokenMissing));
    *now.lock().unwrap() += Duration::from_secs(60);
    assert_eq!(admit(&gate, &bearer), Err(RefusalCode::TokenExpired));
    let other = login(&gate, "teller", "staple").await.unwrap();
    assert_ne!(other.text, token.text);
    assert_eq!(gate.tokens.read().unwrap().keys().filter(|key| **key == [0; 32]).count(), 0);
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_are_refused_alike_and_throttled() {
    let gate = gate(Duration::from_secs(60), Clock::system());
    let wrong = gate.login("teller".into(), "x".into(), HERE).await.unwrap_err();
    let unknown = gate.login("nobody".into(), "x".into(), HERE).await.unwrap_err();
    assert_eq!(wrong, unknown);
    assert_eq!(wrong.code, RefusalCode::BadCredentials);
    for _ in 0..4 {
        assert_eq!(login(&gate, "teller", "x").await.err(), Some(RefusalCode::BadCredentials));
    }
    assert_eq!(login(&gate, "teller", "staple").await.err(), Some(RefusalCode::LoginThrottled));
}

#[test]
fn a_missing_permission_is_named() {
    let user = User::new("teller", "x", Permissions::Only([Permission::VaultRead].into())).unwrap();
    assert_eq!(require(&user, &Permission::VaultRead), Ok(()));
    let refusal = require(&user, &Permission::Flow("CashPay".into())).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::PermissionMissing);
    assert!(refusal.reason.contains("flow:CashPay") && refusal.reason.contains("teller"), "{refusal}");
}

#[tokio::test]
async fn who_is_no_longer_a_user_is_out_at_once() {
    let gate = gate(Duration::from_secs(60), Clock::system());
    let bearer = |token: Token| format!("Bearer {}", token.text);
    let first = bearer(login(&gate, "teller", "staple").await.unwrap());
    let followed = gate.left(&gate.admit(Some(first.as_bytes())).unwrap());
    let teller = gate.users().find("teller").unwrap().as_ref().clone();
    // The same users again: nothing changes.
    gate.replace(Users::new([teller.clone()]).unwrap());
    assert_eq!(admit(&gate, &first), Ok("teller".to_owned()));
    let mut followed = followed;
    assert!(!is_done(&mut followed).await);

    // Other permissions: the token stays and opens less; what was followed under the old ones ends.
    let less = User::with_hash("teller", hash_of(&teller), Permissions::Only([Permission::NodeRead].into()));
    gate.replace(Users::new([less.unwrap()]).unwrap());
    let user = gate.admit(Some(first.as_bytes())).unwrap();
    assert!(require(&user, &Permission::VaultRead).is_err());
    assert!(is_done(&mut followed).await);

    // Another password, also the same one hashed anew: the old tokens go.
    let other = User::new("teller", "staple", Permissions::All).unwrap();
    gate.replace(Users::new([other]).unwrap());
    assert_eq!(admit(&gate, &first), Err(RefusalCode::TokenUnknown));
    let second = bearer(login(&gate, "teller", "staple").await.unwrap());
    assert_eq!(admit(&gate, &second), Ok("teller".to_owned()));

    // Removed, and somebody else is let in.
    let clerk = User::new("clerk", "paper", Permissions::All).unwrap();
    gate.replace(Users::new([clerk]).unwrap());
    assert_eq!(admit(&gate, &second), Err(RefusalCode::TokenUnknown));
    assert_eq!(login(&gate, "teller", "staple").await.err(), Some(RefusalCode::BadCredentials));
    login(&gate, "clerk", "paper").await.unwrap();
}

/// A login under way when its user is removed comes too late.
#[tokio::test]
async fn no_token_is_issued_to_a_user_of_before() {
    let gate = gate(Duration::from_secs(60), Clock::system());
    let user = gate.users().find("teller").unwrap().clone();
    gate.replace(Users::new([]).unwrap());
    assert_eq!(gate.issue(user).map_err(|refusal| refusal.code).err(), Some(RefusalCode::BadCredentials));
    assert!(gate.tokens.read().unwrap().is_empty());
}

fn hash_of(user: &User) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.toml");
    Users::new([user.clone()]).unwrap().write(&path).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    text.split('"').find(|part| part.starts_with("$argon2id$")).unwrap().to_owned()
}

/// Whether something is done that needs nothing more to happen.
async fn is_done(stopped: &mut Stopped) -> bool {
    tokio::select! {
        biased;
        () = stopped => true,
        () = std::future::ready(()) => false,
    }
}
