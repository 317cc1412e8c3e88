use super::*;
use proptest::prelude::*;

fn usd(quantity: u64) -> Amount {
    Amount::new(quantity, Currency::literal("USD")).unwrap()
}

#[test]
fn text_has_the_decimals_of_the_currency() {
    for (text, quantity, shown) in [
        ("100 USD", 10_000, "100.00 USD"),
        ("0.07 EUR", 7, "0.07 EUR"),
        ("100 JPY", 100, "100 JPY"),
        ("1.5 BHD", 1_500, "1.500 BHD"),
        ("9999999999999999.99 USD", Amount::MAX, "9999999999999999.99 USD"),
    ] {
        let amount: Amount = text.parse().unwrap();
        assert_eq!((amount.quantity(), amount.to_string().as_str()), (quantity, shown));
    }
    for bad in [
        "",
        "100",
        "USD",
        "100 usd",
        "100 US",
        "-1 USD",
        "0.001 USD",
        "0.5 JPY",
        "1e3 USD",
        "100  USD",
        "1 USD EUR",
    ] {
        assert!(bad.parse::<Amount>().is_err(), "{bad}");
    }
}

#[test]
fn arithmetic_is_checked() {
    assert_eq!(usd(3).checked_add(usd(4)), Ok(usd(7)));
    assert_eq!(usd(3).checked_sub(usd(4)), Err(AmountError::Range));
    assert_eq!(usd(Amount::MAX).checked_add(usd(1)), Err(AmountError::Range));
    assert_eq!(Amount::new(Amount::MAX + 1, Currency::literal("USD")), Err(AmountError::Range));
    let (usd_code, eur) = (Currency::literal("USD"), Currency::literal("EUR"));
    assert_eq!(usd(1).checked_add(Amount::new(1, eur).unwrap()), Err(AmountError::Mixed(usd_code, eur)));
}

#[test]
fn bytes_out_of_range_are_refused() {
    let encode = |quantity: u64, code: &[u8; 3]| borsh::to_vec(&(quantity, *code)).unwrap();
    assert!(borsh::from_slice::<Amount>(&encode(Amount::MAX, b"USD")).is_ok());
    assert!(borsh::from_slice::<Amount>(&encode(Amount::MAX + 1, b"USD")).is_err());
    assert!(borsh::from_slice::<Amount>(&encode(1, b"usd")).is_err());
}

proptest! {
    #[test]
    fn what_is_shown_is_read_back(quantity in 0..=Amount::MAX, code in "[A-Z]{3}") {
        let amount = Amount::new(quantity, code.parse().unwrap()).unwrap();
        prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        prop_assert_eq!(borsh::from_slice::<Amount>(&borsh::to_vec(&amount).unwrap()).unwrap(), amount);
    }
}
