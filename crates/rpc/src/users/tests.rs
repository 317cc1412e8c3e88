use super::*;

fn only(texts: &[&str]) -> Permissions {
    Permissions::Only(texts.iter().map(|text| text.parse().unwrap()).collect())
}

fn parse(text: &str) -> Result<Users, UsersError> {
    Users::parse(text, Path::new("users.toml"))
}

#[test]
fn a_written_file_reads_the_same_and_only_its_owner_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.toml");
    let users = Users::new([
        User::new("admin", "correct horse", Permissions::All).unwrap(),
        User::new("teller", "battery staple", only(&["flow:CashPay", "vault:read"])).unwrap(),
    ])
    .unwrap();
    users.write(&path).unwrap();
    users.write(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    let read = Users::read(&path).unwrap();
    assert_eq!(read.iter().collect::<Vec<_>>(), users.iter().collect::<Vec<_>>());
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("horse") && text.contains("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(matches!(Users::read(&path), Err(UsersError::Writable { mode: 0o620, .. })));
}

#[test]
fn only_the_right_password_of_the_right_user_is_right() {
    let users = Users::new([
        User::new("a", "one", Permissions::All).unwrap(),
        User::new("b", "two", only(&["node:read"])).unwrap(),
    ])
    .unwrap();
    assert_eq!(users.verify("b", "two").map(|user| user.name().to_string()), Some("b".to_owned()));
    assert_eq!(users.verify("b", "one"), None);
    assert_eq!(users.verify("b", ""), None);
    for password in ["one", "two"] {
        assert_eq!(users.verify("c", password), None, "an unknown name is refused with any user's password");
    }
    assert_eq!(users.verify("b", &"x".repeat(PASSWORD_LIMIT + 1)), None);
    assert_eq!(Users::new([]).unwrap().verify("a", "one"), None);
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let hash = hash_password("x").unwrap();
    let entry = |name: &str, hash: &str, permissions: &str| {
        format!("[[user]]\nname = \"{name}\"\npassword = \"{hash}\"\npermissions = {permissions}\n")
    };
    assert!(parse(&entry("a", &hash, "\"all\"")).is_ok());
    assert!(parse(&entry("a", &hash, "[]")).is_ok());
    let form = |text: &str| matches!(parse(text), Err(UsersError::Form { .. }));
    assert!(form("user"));
    assert!(form(&entry("a", &hash, "\"some\"")));
    assert!(form(&entry("a", &hash, "\"all\"\nadmin = true")));
    assert!(matches!(
        parse(&entry("a", &hash, "[\"vault:write\"]")),
        Err(UsersError::Permission { user, source }) if user == "a" && source.0 == "vault:write"
    ));
    assert!(matches!(parse(&entry("", &hash, "[]")), Err(UsersError::Name(_))));
    assert!(matches!(
        parse(&(entry("a", &hash, "[]") + &entry("a", &hash, "[]"))),
        Err(UsersError::Twice(name)) if name == "a"
    ));
    for wrong in [
        "secret",
        "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
        &hash.replace("argon2id", "argon2i"),
        &hash.replace("m=19456", "m=4000000"),
        &hash.replace("t=2", "t=4000"),
        "$argon2id$v=19$m=19456,t=2,p=1",
    ] {
        assert!(matches!(parse(&entry("a", wrong, "[]")), Err(UsersError::Hash { .. })), "{wrong}");
    }
    assert!(matches!(hash_password(""), Err(UsersError::Password(0))));
}
