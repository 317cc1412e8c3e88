use super::*;
use crate::key::NodeKey;

fn enode(number: u8) -> Enode {
    format!("enode://{}@127.0.0.1:3030{number}", NodeKey::new(&[number; 32]).unwrap().id()).parse().unwrap()
}

fn text() -> String {
    format!(
        "# who may\nnodes-allowlist=[\"{}\",\n  \"{}\"]\naccounts-allowlist=[\"0xfe3b557e8fb62b89f4916b721be55ceb828dbd73\"]\n",
        enode(1),
        enode(2)
    )
}

#[test]
fn besus_file_is_read() {
    let permissions = Permissions::of(Lists::parse(&text()).unwrap());
    assert!(permissions.permits_node(&enode(1).id) && permissions.names_node(&enode(2).id));
    assert!(!permissions.permits_node(&enode(3).id));
    assert!(permissions.permits_account(&"0xfe3b557e8fb62b89f4916b721be55ceb828dbd73".parse().unwrap()));
    assert!(!permissions.permits_account(&Address::ZERO));
}

#[test]
fn what_is_not_listed_is_open_and_an_empty_list_permits_nobody() {
    let everyone = Permissions::everyone();
    assert!(everyone.permits_node(&enode(1).id) && everyone.permits_account(&Address::ZERO));
    assert!(!everyone.names_node(&enode(1).id));
    let nobody = Permissions::of(Lists::parse("nodes-allowlist = []\naccounts-allowlist = []").unwrap());
    assert!(!nobody.permits_node(&enode(1).id) && !nobody.permits_account(&Address::ZERO));
}

#[test]
fn errors_name_line_and_key() {
    let message = |text: &str| Lists::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("\nnode-allowlist = []"),
        "line 2: node-allowlist is not known here; the keys are nodes-allowlist and accounts-allowlist"
    );
    assert!(message("nodes-allowlist = [").starts_with("line 1: this is not TOML"));
    assert!(
        message("\n\naccounts-allowlist = 7").starts_with("line 3: accounts-allowlist is a list of texts")
    );
    assert!(message("accounts-allowlist = [\n\"0xfe\",\n]").starts_with("line 2: the entry \"0xfe\""));
    assert!(message("nodes-allowlist = [\n1]").starts_with("line 2: nodes-allowlist is a list"));
    let entry = Lists::parse("nodes-allowlist = [\"enode://x\"]").unwrap_err();
    assert!(matches!(
        entry,
        PermissionsFault::Entry { line: 1, key: NODES, fault: EntryFault::Enode(EnodeError::NoHost), .. }
    ));
}

#[test]
fn a_reload_that_fails_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("permissions_config.toml");
    std::fs::write(&path, text()).unwrap();
    let permissions = Permissions::open(Some(path.clone()), Some(path.clone())).unwrap();
    let shared = permissions.clone();
    std::fs::write(&path, format!("nodes-allowlist = [\"{}\"]", enode(3))).unwrap();
    let error = permissions.reload().unwrap_err();
    assert!(matches!(error.fault, PermissionsFault::Missing { key: ACCOUNTS }));
    assert!(error.to_string().contains("permissions_config.toml"));
    assert!(shared.permits_node(&enode(1).id) && !shared.permits_node(&enode(3).id));
    std::fs::write(&path, format!("nodes-allowlist = [\"{}\"]\naccounts-allowlist = []", enode(3))).unwrap();
    permissions.reload().unwrap();
    assert!(!shared.permits_node(&enode(1).id) && shared.permits_node(&enode(3).id));
    assert!(matches!(
        Permissions::open(Some(directory.path().join("none")), None).unwrap_err().fault,
        PermissionsFault::Io(_)
    ));
}
