//! Every kind of message that is written is one of the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tally_iso20022::{cancellation_request, notification, payment_return, resolution, statement};

use crate::samples;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/written")
}

/// Every message that is written, by the name of its file.
fn messages() -> Vec<(&'static str, String)> {
    vec![
        ("pacs.002.001.10.xml", samples::status_report()),
        ("pacs.002.001.10-unread.xml", samples::unread_report()),
        ("pacs.002.001.10-returns.xml", samples::report_on_returns()),
        ("pacs.004.001.09.xml", payment_return(&samples::returns()).unwrap()),
        ("camt.029.001.09.xml", resolution(&samples::answers()).unwrap()),
        ("camt.029.001.09-group.xml", resolution(&samples::group_answers()).unwrap()),
        ("camt.056.001.08.xml", cancellation_request(&samples::cancellations()).unwrap()),
        ("camt.056.001.08-group.xml", cancellation_request(&samples::group_cancellation()).unwrap()),
        ("pain.002.001.10.xml", samples::initiation_report()),
        ("pain.002.001.03.xml", samples::old_initiation_report()),
        ("pain.002.001.10-group.xml", samples::refused_group()),
        ("head.001.001.02.xml", samples::with_reply_header()),
        ("camt.053.001.08.xml", statement(&samples::statements()).unwrap()),
        ("camt.054.001.08.xml", notification(&samples::notifications()).unwrap()),
    ]
}

/// `TALLY_BLESS=1` writes the files anew.
#[test]
fn what_is_written_is_what_the_files_say() {
    let bless = std::env::var_os("TALLY_BLESS").is_some();
    for (name, written) in messages() {
        let path = folder().join(name);
        if bless {
            std::fs::write(&path, &written).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert!(written == expected, "{name} differs:\n{written}");
    }
    let names: BTreeSet<String> = messages().into_iter().map(|(name, _)| name.to_owned()).collect();
    let files = std::fs::read_dir(folder()).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names, "a file that nothing writes");
}
