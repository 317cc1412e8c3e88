use super::*;
use crate::server::PostgresServer;

#[test]
fn keeps_the_contract() {
    let count = std::cell::Cell::new(0);
    crate::contract::check(&|| {
        let schema = format!("contract_{}", count.replace(count.get() + 1));
        let options = PostgresOptions::new(PostgresServer::shared().url(), schema);
        Box::new(move || Ok(std::sync::Arc::new(Postgres::open(&options)?)))
    });
}
