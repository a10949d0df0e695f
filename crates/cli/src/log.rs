//! The log of a process that runs on: lines for people on a terminal, objects for programs elsewhere, always to stderr.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};
use weft_config::{LogFormat, Settings, keys};

/// Kept for as long as there is something to log.
pub struct Guard {
    levels: reload::Handle<Targets, Registry>,
}

/// Logs from here on, as the settings say. Once in a process.
pub fn start(settings: &Settings) -> Result<Guard> {
    let terminal = io::stderr().is_terminal();
    let by_place = if terminal { LogFormat::Text } else { LogFormat::Json };
    let (levels, handle) = reload::Layer::new(levels(settings)?);
    let written = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(terminal);
    let written: Box<dyn Layer<_> + Send + Sync> = match settings.get(keys::LOG_FORMAT).unwrap_or(by_place) {
        LogFormat::Text => Box::new(written),
        LogFormat::Json => Box::new(written.event_format(Objects)),
    };
    tracing_subscriber::registry().with(levels).with(written).try_init().context("the log was started before")?;
    Ok(Guard { levels: handle })
}

impl Guard {
    /// Takes the levels of these settings.
    pub fn reload(&self, settings: &Settings) -> Result<()> {
        Ok(self.levels.reload(levels(settings)?)?)
    }
}

fn levels(settings: &Settings) -> Result<Targets> {
    settings.get(keys::LOG_LEVEL).parse().context("cannot read `log.level`")
}

/// An object per line.
struct Objects;

impl<S, N> FormatEvent<S, N> for Objects
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields(Map::new());
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        fields.0.insert("time_ms".to_owned(), Value::from(since.as_millis() as u64));
        fields.0.insert("level".to_owned(), event.metadata().level().as_str().to_ascii_lowercase().into());
        fields.0.insert("target".to_owned(), event.metadata().target().into());
        event.record(&mut fields);
        writeln!(writer, "{}", Value::Object(fields.0))
    }
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
