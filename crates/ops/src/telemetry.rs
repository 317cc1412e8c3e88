//! Structured log lines on standard error.
//!
//! Results and answers go to standard output, everything about the run of the program to standard error, so
//! that the two never mix in a pipe.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One line of text for a person.
    #[default]
    Text,
    /// One JSON object for each line, for a collector.
    Json,
}

impl FromStr for Format {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(TelemetryError::Format(other.chars().take(40).collect())),
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not of the form `level` or `target=level,…`.
    #[error(
        "`{filter}` is not a log filter; write a level (error, warn, info, debug, trace) or target=level,…"
    )]
    Filter {
        /// The text given.
        filter: String,
        /// What was wrong.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// No such format.
    #[error("`{0}` is not a log format; write text or json")]
    Format(String),
    /// Something else in this process already logs.
    #[error("logging is already set up in this process")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends the log lines of this process to standard error.
///
/// `filter` is a level or a list such as `info,tally_settlement=debug`.
///
/// # Errors
/// [`TelemetryError`] when the filter is malformed or logging is already set up.
pub fn init(filter: &str, format: Format) -> Result<(), TelemetryError> {
    subscriber(filter, format, std::io::stderr)?.try_init().map_err(TelemetryError::AlreadySet)
}

fn subscriber<W>(
    filter: &str,
    format: Format,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let env_filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| TelemetryError::Filter { filter: filter.chars().take(200).collect(), source })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(env_filter)
        .with_writer(writer)
        // A line that cannot be written, to a full disk or a closed pipe, is lost; to complain of it on standard error
        // would end the thread that has something to say.
        .log_internal_errors(false);
    Ok(match format {
        Format::Text => Box::new(builder.with_ansi(false).finish()),
        Format::Json => Box::new(builder.json().flatten_event(true).with_current_span(true).finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, format: Format) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = subscriber(filter, format, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(transactions = 3, "batch sequenced");
            tracing::debug!("not shown at info");
        });
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_and_json_carry_the_fields() {
        let text = logged("info", Format::Text);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("INFO") && text.contains("batch sequenced transactions=3"), "{text}");

        let json = logged("info", Format::Json);
        assert!(json.contains(r#""message":"batch sequenced","transactions":3"#), "{json}");
        assert_eq!(logged("warn", Format::Text), "");
        assert_eq!(logged("debug", Format::Text).lines().count(), 2);
    }

    #[test]
    fn malformed_settings_are_refused() {
        let error = init("tally=loud", Format::Text).unwrap_err();
        assert!(error.to_string().starts_with("`tally=loud` is not a log filter"), "{error}");
        assert_eq!("json".parse::<Format>().unwrap(), Format::Json);
        assert!("xml".parse::<Format>().is_err());
    }
}
