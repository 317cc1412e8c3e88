use super::*;
use crate::key::NodeKey;
use proptest::prelude::*;

fn id() -> NodeId {
    NodeKey::new(&[7; 32]).unwrap().id()
}

fn parse(place: &str) -> Result<Enode, EnodeError> {
    format!("enode://{}@{place}", id()).parse()
}

#[test]
fn every_form_of_host_is_read_and_written_back() {
    for place in [
        "127.0.0.1:30303",
        "127.0.0.1:30303?discport=0",
        "127.0.0.1:1?discport=30301",
        "[::1]:30303",
        "[2001:db8::7]:65535",
        "node-1.bank.example:30303",
        "validator_1:30303",
        "n0:30303",
    ] {
        let enode = parse(place).unwrap();
        assert_eq!(enode.to_string(), format!("enode://{}@{place}", id()));
        let json = serde_json::to_string(&enode).unwrap();
        assert_eq!(serde_json::from_str::<Enode>(&json).unwrap(), enode);
    }
    assert_eq!(parse("Node.Example:1").unwrap().host, Host::Name("node.example".to_owned()));
}

#[test]
fn what_is_wrong_is_named() {
    let host = |text: &str| EnodeError::Host { found: text.to_owned() };
    let port = |text: &str| EnodeError::Port { found: text.to_owned() };
    assert_eq!(parse("127.0.0.1"), Err(EnodeError::NoPort));
    assert_eq!(parse("127.0.0.1:0"), Err(port("0")));
    assert_eq!(parse("127.0.0.1:65536"), Err(port("65536")));
    assert_eq!(parse("127.0.0.1:+1"), Err(port("+1")));
    assert_eq!(parse("127.0.0.1:030"), Err(port("030")));
    assert_eq!(parse("127.0.0.1:30303/"), Err(port("30303/")));
    assert_eq!(parse("127.0.0.1:1?discport=x"), Err(port("x")));
    assert_eq!(parse("127.0.0.1:1?other=2"), Err(EnodeError::Query { found: "other=2".to_owned() }));
    assert_eq!(parse("300.0.0.1:1"), Err(host("300.0.0.1")));
    assert_eq!(parse("::1:30303"), Err(host("::1")));
    assert_eq!(parse("[::g]:1"), Err(host("[::g]")));
    assert_eq!(parse(":1"), Err(host("")));
    assert_eq!(parse("a..b:1"), Err(host("a..b")));
    assert_eq!(parse("-a:1"), Err(host("-a")));
    assert_eq!(parse("a b:1"), Err(host("a b")));
    assert_eq!(parse(&format!("{}:1", "a".repeat(64))), Err(host(&"a".repeat(64))));
    assert_eq!("http://x".parse::<Enode>(), Err(EnodeError::Scheme));
    assert_eq!(format!("enode://{}", id()).parse::<Enode>(), Err(EnodeError::NoHost));
    let short = "enode://00ff@127.0.0.1:1".parse::<Enode>();
    assert_eq!(short, Err(EnodeError::Key(NodeIdError::Length { found: 4 })));
    let off_curve = format!("enode://{}@127.0.0.1:1", "07".repeat(64)).parse::<Enode>();
    assert!(matches!(off_curve, Err(EnodeError::Key(NodeIdError::NotOnCurve(_)))));
    assert_eq!("e".repeat(513).parse::<Enode>(), Err(EnodeError::Long { found: 513 }));
}

proptest! {
    #[test]
    fn anything_else_is_refused_without_panic(text in "\\PC{0,300}", place in "\\PC{0,60}") {
        crate::fuzz::enode(text.as_bytes());
        crate::fuzz::enode(format!("enode://{}@{place}", id()).as_bytes());
    }
}
