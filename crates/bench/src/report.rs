//! Measurements in tables, with published figures and the machine's limits beside them.

use crate::limits::Limit;
use crate::stages::Measured;
use crate::table::{self, Align, Table};

/// Each stage alone, beside what was published of one instance of it and what the machine allows.
#[must_use]
pub fn stages(measured: &[Measured], limits: &[Limit], styled: bool) -> String {
    let mut rows = Table::new(&[
        ("stage", Align::Left),
        ("payment", Align::Left),
        ("tx/s", Align::Right),
        ("CPU each", Align::Right),
        ("published", Align::Right),
        ("times", Align::Right),
        ("bar", Align::Right),
        ("of its limit", Align::Right),
        ("the limit: what a payment needs at least", Align::Left),
    ]);
    for one in measured {
        let work = one.work();
        let share = work.nanoseconds(limits).map(|least| least * one.rate() / 1e9);
        let payment = format!("{} legs{}", one.legs, if one.signed { ", signed" } else { "" });
        let published = one.stage.published().filter(|_| !one.signed);
        let times = one.times_published();
        rows.row([
            one.stage.name().to_owned(),
            payment,
            table::number(one.rate()),
            table::quantity(one.nanoseconds(), "ns"),
            published.map_or(String::new(), |figure| table::number(figure.value)),
            times.map_or(String::new(), |times| format!("{}×", table::number(times))),
            times.map_or(String::new(), |_| format!("{}×", one.stage.bar())),
            share.map_or("–".to_owned(), |share| table::quantity(share, "share")),
            work.to_string(),
        ]);
    }
    let mut text = rows.render(styled);
    text.push_str(
        "One instance on one thread, on batches in memory: nothing durable in these rows. Published: one instance on \
         its own\nmachine, unsigned (AWS Architecture Blog); only times are of two machines. Limit: those hashes, \
         updates, bytes and\nsignatures at the rates measured on one core in this run, one after the other.\n",
    );
    text
}
