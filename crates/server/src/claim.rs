//! Claims, which must not lease work for a caller that has gone away. The claim runs in a task of its own that outlives
//! the request: if the request ends first the wait ends with it, and what was leased all the same is handed back.

use crate::app::App;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};
use weft_api::operation::NoQuery;
use weft_api::work::Claim;
use weft_api::{Args, Code, Problem, Reply};
use weft_dispatch::{Answer, Around, Caller, Dispatch};

type Answered = Result<Answer, Problem>;

pub async fn carry_out(app: &App, caller: Caller, args: Args<[String; 0], NoQuery, Claim>, around: Around) -> Answered {
    let left = Arc::new(Notify::new());
    let (send, receive) = oneshot::channel();
    let (task, told) = (app.clone(), left.clone());
    let asked_by = caller.clone();
    tokio::spawn(async move {
        let dispatch = &task.shared.dispatch;
        let answer = dispatch.claim(&caller, args, &around, &told).await;
        if let Err(answer) = send.send(answer) {
            give_back(dispatch, &caller, answer).await;
        }
    });
    let mut waiting = Listening { app, caller: asked_by, left, receive };
    let gone = |_| Err(Problem::new(Code::Internal, "the claim was not answered"));
    (&mut waiting.receive).await.unwrap_or_else(gone)
}

/// The request's side of a claim.
struct Listening<'a> {
    app: &'a App,
    caller: Caller,
    left: Arc<Notify>,
    receive: oneshot::Receiver<Answered>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.left.notify_one();
        self.receive.close();
        // Answered in the last moment: the task has no part in it any more.
        if let Ok(answer) = self.receive.try_recv() {
            let (app, caller) = (self.app.clone(), self.caller.clone());
            tokio::spawn(async move { give_back(&app.shared.dispatch, &caller, answer).await });
        }
    }
}

async fn give_back(dispatch: &Dispatch, caller: &Caller, answer: Answered) {
    // What an earlier call leased is that call's: its worker may have it.
    if let Ok(Answer { reply: Reply::Claim(claimed), replayed: false, .. }) = answer {
        dispatch.give_back(caller, claimed).await;
    }
}
