//! Gas per second, in a table.

use tally_evm::bench::Figure;

use super::page::Section;
use crate::evm::{BAR_SHARE, published, share};
use crate::table::{self, Align, Table};

/// Each workload beside bare `revm`, with what others have published.
#[must_use]
pub fn section(figures: &[Figure]) -> Section {
    let mut rows = Table::new(&[
        ("code", Align::Left),
        ("Mgas/s", Align::Right),
        ("revm, to the block's changes", Align::Right),
        ("of it", Align::Right),
        ("bar", Align::Right),
        ("revm, to nothing", Align::Right),
        ("of it", Align::Right),
    ]);
    let million = |gas: u64| table::number(gas as f64 / 1e6);
    for figure in figures {
        let bare = figure.bare_gas_per_second();
        rows.row([
            figure.name.to_owned(),
            million(figure.own_gas_per_second()),
            million(figure.bundled_gas_per_second()),
            table::quantity(share(figure), "share"),
            table::quantity(BAR_SHARE, "share"),
            million(bare),
            table::quantity(figure.per_mille_of(bare) as f64 / 1000.0, "share"),
        ]);
    }
    let mut section = Section::of("The EVM", rows);
    section.note(
        "On one core, by the clock: checks, execution, receipts and the changes that a block makes. revm executes the \
         same transactions, in turn: once giving out the block's changes as well, once with nothing but a cache.",
    );
    if let Some(figure) = published() {
        let value = table::number(figure.value);
        let published =
            format!("Published: {}: {value}, {} ({})", figure.system, figure.metric, figure.source);
        section.note(&published);
    }
    section
}
