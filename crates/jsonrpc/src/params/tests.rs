use alloy_primitives::{Address, B256, Bytes, U256};
use proptest::prelude::*;

use super::*;

fn refused<T: FromArgument + std::fmt::Debug>(raw: &str) -> String {
    let text = format!("[{raw}]");
    let params = Params::new(Some(&text));
    let [argument] = params.take::<1>().unwrap();
    let error = argument.required::<T>().unwrap_err();
    assert_eq!(error.code, INVALID_PARAMS);
    error.message.into_owned()
}

fn accepted<T: FromArgument>(raw: &str) -> T {
    T::from_json(raw).unwrap()
}

#[test]
fn values_are_read_as_the_standard_writes_them() {
    assert_eq!(accepted::<u64>("\"0x0\""), 0);
    assert_eq!(accepted::<u64>("\"0xffffffffffffffff\""), u64::MAX);
    assert_eq!(accepted::<U256>(&format!("\"0x{}\"", "f".repeat(64))), U256::MAX);
    assert_eq!(accepted::<Bytes>("\"0x\""), Bytes::new());
    assert_eq!(accepted::<Bytes>("\"0xAb\""), Bytes::from_static(&[0xab]));
    assert_eq!(accepted::<Address>(&format!("\"0x{}\"", "Aa".repeat(20))), Address::repeat_byte(0xaa));
    assert_eq!(accepted::<Vec<B256>>(&format!("[\"0x{}\"]", "01".repeat(32))), [B256::repeat_byte(1)]);
    assert_eq!(accepted::<u64>("\"\\u0030x1\""), 1, "escapes are part of JSON");
    assert!(accepted::<bool>("true"));
}

#[test]
fn what_is_wrong_is_said_in_the_usual_words() {
    let number = |reason: &str| {
        format!("invalid argument 0: json: cannot unmarshal {reason} into Go value of type hexutil.Uint64")
    };
    assert_eq!(refused::<u64>("\"1\""), number("hex string without 0x prefix"));
    assert_eq!(refused::<u64>("\"\""), number("empty hex string"));
    assert_eq!(refused::<u64>("\"0x\""), number("hex string \"0x\""));
    assert_eq!(refused::<u64>("\"0x01\""), number("hex number with leading zero digits"));
    assert_eq!(refused::<u64>("\"0xg\""), number("invalid hex string"));
    assert_eq!(refused::<u64>("\"0x1ffffffffffffffff\""), number("hex number > 64 bits"));
    assert_eq!(refused::<u64>("1"), number("non-string"));
    let hash = "invalid argument 0: json: cannot unmarshal hex string without 0x prefix into Go value of type common.Hash";
    assert_eq!(refused::<B256>(&format!("\"{}\"", "0".repeat(64))), hash);
    assert_eq!(
        refused::<B256>("\"0x00\""),
        "invalid argument 0: hex string has length 2, want 64 for common.Hash"
    );
    assert!(refused::<B256>(&format!("\"0x{}\"", "zz".repeat(32))).contains("invalid hex string"));
    assert!(refused::<Bytes>("\"0x123\"").contains("hex string of odd length"));
    assert!(refused::<U256>(&format!("\"0x1{}\"", "0".repeat(64))).contains("hex number > 256 bits"));
    assert!(refused::<bool>("1").contains("type bool"));
    assert_eq!(refused::<u64>("null"), "missing value for required argument 0");
    assert!(refused::<u64>("{\"a\":[1]}").contains("non-string"));
}

#[test]
fn parameters_are_an_array_of_at_most_as_many_as_the_method_has() {
    assert!(Params::new(None).take::<2>().unwrap().iter().all(|argument| argument.raw().is_none()));
    assert!(Params::new(Some("null")).take::<1>().is_ok());
    let [first, second, third] = Params::new(Some("[ 1 , [2,3] ]")).take::<3>().unwrap();
    assert_eq!((first.raw(), second.raw(), third.raw()), (Some("1"), Some("[2,3]"), None));
    let error = Params::new(Some("[1,2,3]")).take::<2>().unwrap_err();
    assert_eq!(error.message, "too many arguments, want at most 2");
    assert_eq!(Params::new(Some("{}")).take::<2>().unwrap_err().message, "non-array args");
    assert!(Params::new(Some("[]")).none().is_ok() && Params::new(Some("[0]")).none().is_err());
}

proptest! {
    #[test]
    fn nothing_panics(text: String, junk in "[\\[\\]{}\",:0-9a-fx ]{0,40}") {
        for raw in [text.as_str(), junk.as_str()] {
            let _ = (u64::from_json(raw), U256::from_json(raw), Bytes::from_json(raw), B256::from_json(raw));
            let _ = (Address::from_json(raw), bool::from_json(raw), String::from_json(raw), Vec::<u64>::from_json(raw));
            let _ = Params::new(Some(raw)).take::<3>();
        }
    }

    #[test]
    fn numbers_survive(number: u64, large: [u64; 4]) {
        prop_assert_eq!(u64::from_json(&format!("\"{number:#x}\"")), Ok(number));
        let large = U256::from_limbs(large);
        prop_assert_eq!(U256::from_json(&format!("\"{large:#x}\"")), Ok(large));
    }
}
