//! One connection to the server, driven by the thread that uses it.

use super::error::error;
use super::tls::Connector;
use crate::session::{Columns, Mistyped, Session, Value};
use crate::{PostgresOptions, Result, StoreError};
use bytes::BytesMut;
use futures_util::TryStreamExt as _;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{IsNull, ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

/// How many prepared statements a connection keeps; vault queries have many forms.
const STATEMENTS: usize = 256;

/// How long to wait for the server to answer a new connection, unless the URL says.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent data may remain unacknowledged by the server's host, unless the URL says.
const SILENCE: Duration = Duration::from_secs(20);

/// Settings of every session. Statistics of tables that were empty a minute ago mislead the planner, and
/// each statement here has one index that it is meant to use; so the other ways are switched off.
const SESSION: &str = "SET synchronous_commit = on; SET jit = off; SET plan_cache_mode = force_generic_plan; \
     SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off; SET client_min_messages = warning;";

/// Where the schema is.
pub(super) struct Place {
    config: Config,
    tls: Option<Connector>,
    /// A plain identifier: it needs no quotes.
    pub(super) schema: String,
}

impl Place {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self> {
        let mut config: Config =
            options.url.parse().map_err(|error: tokio_postgres::Error| StoreError::Configuration {
                reason: format!("url is not a PostgreSQL connection string: {error}"),
            })?;
        let tls = options.ca.as_deref().map(Connector::new).transpose()?;
        check_encryption(&config, tls.is_some())?;
        if tls.is_some() {
            config.ssl_mode(SslMode::Require);
        }
        let schema = options.schema.as_bytes();
        let plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let first_is_letter = schema.first().is_some_and(u8::is_ascii_lowercase);
        let reserved = options.schema.starts_with("pg_") || options.schema == "information_schema";
        if !first_is_letter || schema.len() > 63 || !schema.iter().all(plain) || reserved {
            let reason = format!(
                "schema is '{}'; use 1 to 63 lower-case letters, digits and '_', a letter first and not 'pg_'",
                options.schema
            );
            return Err(StoreError::Configuration { reason });
        }
        config.application_name(format!("tally {}", options.schema));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        Ok(Self { config, tls, schema: options.schema.clone() })
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Link> {
        let unreachable = |error: std::io::Error| StoreError::Unreachable(error.into());
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(unreachable)?;
        let client = runtime.block_on(async {
            // Errors of a connection reach the calls that wait for answers.
            let client = if let Some(tls) = &self.tls {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(connection);
                client
            } else {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(connection);
                client
            };
            client.batch_execute(&format!("{SESSION} SET search_path TO \"{}\"", self.schema)).await?;
            Ok(client)
        });
        Ok(Link { client: client.map_err(error)?, runtime, statements: HashMap::new() })
    }

    /// A new connection that only reads.
    pub(super) fn reader(&self) -> Result<Link> {
        let link = self.connect()?;
        link.run("SET default_transaction_read_only = on; SET enable_sort = off")?;
        Ok(link)
    }
}

/// Refuses to talk to another machine in the clear.
fn check_encryption(config: &Config, encrypted: bool) -> Result<()> {
    let local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    };
    let reason = if encrypted {
        let sockets = config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_)));
        if !sockets {
            return Ok(());
        }
        "database.ca asks for encryption, and url leads to a socket of this machine, which has none; remove ca"
    } else if config.get_ssl_mode() == SslMode::Require {
        "url asks for sslmode=require; name the file with the authorities that sign the server's certificate: database.ca"
    } else {
        let addresses = config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let named = !config.get_hostaddrs().is_empty() || config.get_hosts().iter().all(local);
        if addresses && named {
            return Ok(());
        }
        "url leads to another machine; name the file with the authorities that sign the server's certificate: database.ca"
    };
    Err(StoreError::Configuration { reason: reason.to_owned() })
}

/// A connection with its prepared statements. The runtime has no thread: the connection is driven while a
/// call waits.
pub(super) struct Link {
    // Before the runtime, so that it is dropped first.
    client: Client,
    runtime: Runtime,
    statements: HashMap<String, Statement>,
}

/// A statement and its values.
pub(super) struct Request<'a> {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Box<dyn ToSql + Sync + 'a>>,
}

impl Link {
    /// Runs statements that have no values.
    pub(super) fn run(&self, sql: &str) -> Result<()> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(error)
    }

    /// All rows of an answer.
    pub(super) fn query(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let Self { client, runtime, statements } = self;
        runtime
            .block_on(async {
                let statement = prepare(client, statements, sql).await?;
                client.query(&statement, values).await
            })
            .map_err(error)
    }

    /// Hands each row of an answer to `each` as it comes, until it fails. The statement is not kept.
    pub(super) fn stream(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<()> {
        let Self { client, runtime, .. } = self;
        runtime.block_on(async {
            let statement = client.prepare(sql).await.map_err(error)?;
            let rows = client.query_raw(&statement, values.iter().copied()).await.map_err(error)?;
            let mut rows = std::pin::pin!(rows);
            while let Some(row) = rows.try_next().await.map_err(error)? {
                each(&row)?;
            }
            Ok(())
        })
    }

    /// Runs statements as one transaction, without waiting for an answer between them.
    pub(super) fn transact(&mut self, requests: &[Request<'_>]) -> Result<()> {
        let Self { client, runtime, statements } = self;
        runtime
            .block_on(async {
                let mut prepared = Vec::with_capacity(requests.len());
                for request in requests {
                    prepared.push(prepare(client, statements, request.sql).await?);
                }
                let client = &*client;
                let begin = client.batch_execute("BEGIN");
                let changes = requests.iter().zip(&prepared).map(|(request, statement)| async move {
                    let values = request.values.iter().map(|value| &**value as &(dyn ToSql + Sync));
                    client.execute_raw(statement, values).await.map(drop)
                });
                let changes = futures_util::future::join_all(changes);
                let commit = client.batch_execute("COMMIT");
                // Polled in this order for the first time, so sent in this order. After a refusal the server
                // refuses what follows, and its COMMIT is a rollback: the first refusal is the one that counts.
                let (begin, changes, commit) = futures_util::future::join3(begin, changes, commit).await;
                std::iter::once(begin).chain(changes).chain([commit]).collect::<Result<(), _>>()
            })
            .map_err(error)
    }
}

async fn prepare(
    client: &Client,
    statements: &mut HashMap<String, Statement>,
    sql: &str,
) -> Result<Statement, tokio_postgres::Error> {
    if let Some(statement) = statements.get(sql) {
        return Ok(statement.clone());
    }
    if statements.len() >= STATEMENTS {
        statements.clear();
    }
    let statement = client.prepare(sql).await?;
    statements.insert(sql.to_owned(), statement.clone());
    Ok(statement)
}

impl Session for Link {
    fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Columns) -> Result<()>,
    ) -> Result<()> {
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        self.query(sql, &values)?.iter().try_for_each(|row| each(row))
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Integer(integer) => integer.to_sql(of, out),
            Self::Bytes(bytes) => bytes.to_sql(of, out),
        }
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::INT8 || *of == Type::BYTEA
    }

    tokio_postgres::types::to_sql_checked!();
}

impl Columns for Row {
    fn integer(&self, column: usize) -> Result<Option<i64>, Mistyped> {
        let of = self.columns().get(column).ok_or(Mistyped(column))?.type_();
        let value = if *of == Type::INT4 {
            self.try_get::<_, Option<i32>>(column).map(|value| value.map(i64::from))
        } else {
            self.try_get(column)
        };
        value.map_err(|_| Mistyped(column))
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Mistyped> {
        self.try_get(column).map_err(|_| Mistyped(column))
    }
}
