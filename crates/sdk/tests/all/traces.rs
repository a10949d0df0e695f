//! What logs and calls of a handler carry of its execution.

use crate::remote::{Server, soon};
use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weft_sdk::test::Harness;
use weft_sdk::{Ctx, Failure, Json, Worker};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A log with a filter that lets only warnings through; keeps the fields of spans.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(format!("{} ", span.metadata().name()));
        span.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn sdk_37_a_filter_of_warnings_leaves_them_what_they_are_about() {
    let warnings = Warnings::default();
    let _quiet = tracing::subscriber::set_default(warnings.clone());
    let harness = Harness::new().await;
    harness.worker(|worker| worker.lane("mail").handle("k", async || Ok::<_, Failure>(())));
    let run = harness.submit("k", &()).lane("mail").trace(TRACE).await.unwrap();
    run.result::<()>().await.unwrap();
    let spans = warnings.0.lock().unwrap();
    let task = spans.iter().find(|span| span.starts_with("task ")).expect("the span of the task is there");
    for field in [run.id(), "attempt=0", "kind=\"k\"", "lane=\"mail\"", TRACE] {
        assert!(task.contains(field), "{field}: {task}");
    }
}

#[tokio::test]
async fn ops_11_calls_of_a_handler_belong_to_the_trace_of_its_execution() {
    async fn submits(ctx: Ctx) -> Result<Json<String>, Failure> {
        Ok(Json(ctx.client().submit("other", &()).await?.id().to_string()))
    }
    let server = Server::any().await;
    let client = server.client().await;
    let worker = tokio::spawn(Worker::new(client.clone()).handle("submits", submits).run());
    let run = client.submit("submits", &()).trace(TRACE).await.unwrap();
    let other: String = soon(run.result()).await.unwrap();
    assert_eq!(client.run(other).get().await.unwrap().trace.as_deref(), Some(TRACE));
    worker.abort();
    soon(server.stop()).await;
}
