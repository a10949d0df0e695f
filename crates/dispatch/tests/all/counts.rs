use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use weft_api::Call;
use weft_api::operation::Wire;
use weft_core::Time;
use weft_core::command::Principal;
use weft_dispatch::{Around, Caller, Dispatch, Reach};
use weft_engine::{Config, Engine, TokioRuntime};
use weft_store::faulty::{Faults, Sleeper};
use weft_store::{Faulty, MemoryStore};

struct Tokio;

impl Sleeper for Tokio {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(task);
    }
}

#[tokio::test(start_paused = true)]
async fn api_looking_for_namespaces_is_part_of_the_time_that_a_count_may_take() {
    let began = tokio::time::Instant::now();
    let clock = move || Time::from_ms(1_700_000_000_000 + began.elapsed().as_millis() as u64);
    let store = Arc::new(MemoryStore::new(1, Arc::new(clock)));
    let faulty = Arc::new(Faulty::new(store, Faults::default(), 7, Arc::new(Tokio)));
    let runtime = Arc::new(TokioRuntime::current());
    let dispatch = Dispatch::new(Engine::open_on(faulty.clone(), Config::default(), runtime).await.unwrap());
    for number in 0..40 {
        let caller = crate::of(&format!("shop-{number:02}"));
        crate::ask(&dispatch, &caller, "submit_execution", json!({ "kind": "send" }), None).await.unwrap();
    }
    let everywhere = Caller::new(Principal::all("", "ann"), Reach::All, None, None);
    faulty.set_faults(Faults { before_ms: (500, 500), ..Faults::default() });
    for (operation, query) in [("count_executions", ""), ("list_namespaces", "limit=40")] {
        let call = Call::from_wire(operation, Wire { query: query.into(), ..Wire::default() }).unwrap();
        let asked = tokio::time::Instant::now();
        let answer = dispatch.call(&everywhere, call, &Around { trace: None }).await.unwrap();
        let reply: serde_json::Value = serde_json::from_slice(&answer.reply.carry().bytes).unwrap();
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(8), "{operation} took {took:?}: {reply}");
        let is_cut = reply["at_least"] == true || reply["next_cursor"].is_string();
        assert!(is_cut, "{operation} says that there is more: {reply}");
    }
}
