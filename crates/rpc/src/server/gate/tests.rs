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
