//! The log of a process that runs on: lines for people on a terminal, objects for programs elsewhere, always to stderr.

#[cfg(feature = "otel")]
use crate::otel as traces;
use crate::terminal::Paint;
use crate::visible::VisibleStderr;
use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context as Spans, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};
use weft_config::{LogFormat, Settings, keys};

/// Kept for as long as there is something to log. Dropping it sends the last traces.
pub struct Guard {
    levels: reload::Handle<Targets, Logged>,
    _traces: traces::Guard,
}

/// What the log is built upon: traces are made whatever is logged.
type Logged = tracing_subscriber::layer::Layered<Option<traces::Layer>, Registry>;

/// Logs from here on, and makes traces if they are asked for, as the settings say. Once in a process.
pub fn start(settings: &Settings, paint: Paint) -> Result<Guard> {
    start_at(settings, &settings.get(keys::LOG_LEVEL), paint)
}

/// The same with these levels.
pub fn start_at(settings: &Settings, levels: &str, paint: Paint) -> Result<Guard> {
    let (traced, traces) = traces::start(settings)?;
    let terminal = io::stderr().is_terminal();
    let by_place = if terminal { LogFormat::Text } else { LogFormat::Json };
    let (levels, handle) = reload::Layer::new(targets(levels)?);
    let painted = paint.is_on();
    let writer = move || VisibleStderr { painted };
    let written = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(painted);
    let written: Box<dyn Layer<Logged> + Send + Sync> = match settings.get(keys::LOG_FORMAT).unwrap_or(by_place) {
        LogFormat::Text => Box::new(written.with_filter(levels)),
        LogFormat::Json => Box::new(Remember.and_then(written.event_format(Objects)).with_filter(levels)),
    };
    tracing_subscriber::registry().with(traced).with(written).try_init().context("the log was started before")?;
    traces::warn(settings);
    let injected = weft_config::injected_variables(std::env::vars_os());
    if !injected.is_empty() {
        tracing::debug!(variables = injected.join(","), "passed over variables that Kubernetes or a Docker link made");
    }
    Ok(Guard { levels: handle, _traces: traces })
}

/// What `start` would refuse.
pub fn check(settings: &Settings) -> Result<()> {
    traces::check(settings)
}

impl Guard {
    /// Takes the levels of these settings.
    pub fn reload(&self, settings: &Settings) -> Result<()> {
        Ok(self.levels.reload(targets(&settings.get(keys::LOG_LEVEL))?)?)
    }
}

fn targets(levels: &str) -> Result<Targets> {
    levels.parse().context("cannot read `log.level`")
}

/// Keeps the fields of every span, so that what is logged inside it carries them: the id of a request most of all.
struct Remember;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Remember {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, spans: Spans<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = spans.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, spans: Spans<'_, S>) {
        if let Some(span) = spans.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }
}

/// An object per line.
struct Objects;

impl<S, N> FormatEvent<S, N> for Objects
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields(Map::new());
        // The outermost first: what is nearer to the event counts.
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(known) = span.extensions().get::<Fields>() {
                fields.0.extend(known.0.clone());
            }
        }
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

/// Traces are a feature of the build.
#[cfg(not(feature = "otel"))]
mod traces {
    use crate::fault::Fault;
    use anyhow::Result;
    use weft_config::{Origin, Settings, keys};

    pub type Layer = tracing_subscriber::layer::Identity;

    pub struct Guard;

    pub fn start(settings: &Settings) -> Result<(Option<Layer>, Guard)> {
        check(settings)?;
        Ok((None, Guard))
    }

    /// Who asks Weft for traces is told that there are none. A variable that all programs of a machine share asks nobody
    /// in particular, and must not keep this one from starting.
    pub fn check(settings: &Settings) -> Result<()> {
        match asked(settings) {
            Some(origin) if !is_foreign(origin) => Err(Fault::usage(format!(
                "cannot send traces: `otel.endpoint` is set ({origin}), and this `weft` was built without them; build it \
                 with `cargo install --path crates/cli --features otel` in a checkout, or unset it"
            ))),
            _ => Ok(()),
        }
    }

    /// Tells of a wish that is passed over.
    pub fn warn(settings: &Settings) {
        if let Some(origin) = asked(settings).filter(|origin| is_foreign(origin)) {
            let variable = origin.to_string();
            tracing::warn!(variable, "no traces are sent: this `weft` was built without them");
        }
    }

    fn asked(settings: &Settings) -> Option<&Origin> {
        settings.get(keys::OTEL_ENDPOINT).map(|_| settings.origin(keys::OTEL_ENDPOINT))
    }

    fn is_foreign(origin: &Origin) -> bool {
        matches!(origin, Origin::Variable(name) if !name.starts_with("WEFT_"))
    }
}
