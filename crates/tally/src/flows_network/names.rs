//! How the command line names parties.

use anyhow::{Context, ensure};
use tally_contracts::Name;
use tally_rpc::NetworkMap;

/// A full X.500 name, or the organisation alone: `PartyA` is `O=PartyA, L=London, C=GB`.
pub(crate) fn parse(text: &str) -> anyhow::Result<Name> {
    let text = text.trim();
    if text.contains('=') { text.parse() } else { Name::new(text, "London", "GB") }
        .with_context(|| format!("'{text}' is not a name: give PartyA, or 'O=PartyA, L=London, C=GB'"))
}

/// Names separated by commas; one with attributes, which has commas of its own, begins anew at an attribute that it
/// has already, or where a plain name follows.
pub(crate) fn parse_list(text: &str) -> anyhow::Result<Vec<Name>> {
    let mut names: Vec<Vec<&str>> = Vec::new();
    for part in text.split([',', ';']).map(str::trim) {
        ensure!(!part.is_empty(), "'{text}': there is a name missing between two commas");
        let attribute = |part: &str| part.split_once('=').map(|(key, _)| key.trim().to_ascii_uppercase());
        let continues = attribute(part).is_some_and(|this| {
            names.last().is_some_and(|name| {
                let before: Vec<_> = name.iter().map(|part| attribute(part)).collect();
                !before.contains(&None) && !before.contains(&Some(this))
            })
        });
        match names.last_mut().filter(|_| continues) {
            Some(name) => name.push(part),
            None => names.push(vec![part]),
        }
    }
    names.iter().map(|parts| parse(&parts.join(", "))).collect()
}

/// The party of the map that is called so: by its full name, or by its organisation if only one has that.
pub(crate) fn resolve(map: &NetworkMap, text: &str) -> anyhow::Result<String> {
    let names = || map.parties.iter().map(|party| party.name.as_str());
    let is_called = |name: &str| {
        name.parse::<Name>().is_ok_and(|name| {
            name.organisation() == text || text.parse::<Name>().is_ok_and(|wanted| wanted == name)
        })
    };
    let mut found = names().filter(|name| is_called(name));
    let first = found.next().with_context(|| {
        format!(
            "no party `{text}` is on the network map; there are: {}",
            names().collect::<Vec<_>>().join("; ")
        )
    })?;
    ensure!(found.next().is_none(), "several parties are called `{text}`; give the full name");
    Ok(first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_or_full() {
        let names = |text: &str| -> Vec<String> {
            parse_list(text).unwrap().iter().map(ToString::to_string).collect()
        };
        let (a, b) = ("O=PartyA, L=London, C=GB", "O=B, L=Paris, C=FR");
        assert_eq!(names("PartyA"), [a]);
        assert_eq!(names("PartyA,O=B,L=Paris,C=FR"), [a, b]);
        assert_eq!(names("O=B, L=Paris, C=FR, PartyA"), [b, a]);
        assert_eq!(names("O=B,L=Paris,C=FR;O=PartyA,L=London,C=GB"), [b, a]);
        assert_eq!(names("O=B,L=Paris,C=FR,O=PartyA,L=London,C=GB"), [b, a]);
        for wrong in ["", "A,,B", "O=A", "A,L=London"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }
}
