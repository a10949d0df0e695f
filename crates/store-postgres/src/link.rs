//! One connection, driven by the call that uses it.
//!
//! Nothing runs in the background: statements are queued, then written together, then their answers are read, all in the
//! task of the caller. A link that is dropped in the middle closes its socket, so no transaction is ever left for the next
//! call. Statements are prepared when first needed and kept. Nothing is ever sent twice.

use crate::column::Param;
use crate::sql::Stmt;
use futures_util::TryStreamExt;
use futures_util::future::join_all;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Connection, Error, Notification, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A statement with its parameters.
#[derive(Debug)]
pub struct Step<'a> {
    pub stmt: Stmt,
    pub params: Vec<Param<'a>>,
}

impl<'a> Step<'a> {
    pub fn new(stmt: Stmt, params: impl Into<Vec<Param<'a>>>) -> Self {
        Self { stmt, params: params.into() }
    }

    pub fn bare(stmt: Stmt) -> Self {
        Self { stmt, params: Vec::new() }
    }
}

/// What the server answered to each statement, in order.
pub type Answers = Vec<Result<Vec<Row>, Error>>;

/// A pipeline of which nothing was sent.
#[derive(Debug)]
pub struct Unsent(pub Error);

/// What a connection is if it is encrypted.
type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

pub struct Link {
    client: Client,
    wire: Wire,
    statements: HashMap<Stmt, Statement>,
}

/// The half that reads and writes.
struct Wire {
    connection: Option<Connection<Socket, Encrypted>>,
    warnings: Vec<String>,
    notifications: Vec<Notification>,
}

impl Link {
    pub fn new(client: Client, connection: Connection<Socket, Encrypted>) -> Self {
        let wire = Wire { connection: Some(connection), warnings: Vec::new(), notifications: Vec::new() };
        Self { client, wire, statements: HashMap::new() }
    }

    /// Runs statements that have no parameters, by the simple protocol.
    pub async fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.wire.drive(self.client.batch_execute(sql)).await
    }

    /// Runs one statement that is not worth preparing.
    pub async fn ask(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let client = &self.client;
        let call = async { client.query_raw(sql, params).await?.try_collect().await };
        self.wire.drive(call).await
    }

    /// Makes sure that `run` has every statement it needs.
    pub async fn prepare(&mut self, steps: &[Step<'_>]) -> Result<(), Error> {
        let mut missing: Vec<Stmt> = Vec::new();
        for step in steps {
            if !self.statements.contains_key(&step.stmt) && !missing.contains(&step.stmt) {
                missing.push(step.stmt);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = missing.iter().map(|stmt| stmt.text()).collect();
        let client = &self.client;
        let prepared = self.wire.drive(join_all(texts.iter().map(|text| client.prepare(text)))).await;
        for (stmt, statement) in missing.into_iter().zip(prepared) {
            self.statements.insert(stmt, statement?);
        }
        Ok(())
    }

    /// Sends all statements in one go and waits for all answers. They must have been prepared.
    ///
    /// If one of them cannot be encoded none is sent, and the link is of no more use.
    pub async fn run(&mut self, steps: &[Step<'_>]) -> Result<Answers, Unsent> {
        self.wire.warnings.clear();
        let (client, statements) = (&self.client, &self.statements);
        let calls = steps.iter().map(|step| {
            let statement = statements.get(&step.stmt).expect("link: statements are prepared before they are run");
            let call = async { client.query_raw(statement, &step.params).await?.try_collect().await };
            Slot::Waiting(Box::pin(call) as Pin<Box<dyn Future<Output = _> + Send>>)
        });
        let pipeline = Pipeline { slots: calls.collect(), sent: false };
        let answers = self.wire.drive(pipeline).await;
        if answers.is_err() {
            // The statements that could be encoded wait in the queue; they must not get out later.
            self.wire.connection = None;
        }
        answers
    }

    /// False if the server has closed the connection since it was used last.
    pub async fn is_alive(&mut self) -> bool {
        let wire = &mut self.wire;
        poll_fn(|context| {
            while let Poll::Ready(true) = wire.poll(context) {}
            Poll::Ready(wire.connection.is_some())
        })
        .await
    }

    /// Waits until another session has notified this one; an empty list if the connection is gone.
    pub async fn notified(&mut self) -> Vec<Notification> {
        let wire = &mut self.wire;
        poll_fn(|context| {
            loop {
                let read = wire.poll(context);
                if !wire.notifications.is_empty() || wire.connection.is_none() {
                    return Poll::Ready(std::mem::take(&mut wire.notifications));
                }
                if read.is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// What the server warned of during the last `run`.
    pub fn warnings(&self) -> &[String] {
        &self.wire.warnings
    }
}

impl Wire {
    /// Polls the future and the socket in turn until the future is done. A connection that ends is dropped, which
    /// answers whatever the future still waits for.
    async fn drive<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            loop {
                if let Poll::Ready(done) = future.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
                if self.poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Moves bytes. `Ready(true)` after a message that belongs to no statement, `Ready(false)` when the connection has
    /// just ended, pending otherwise.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Some(connection) = &mut self.connection else { return Poll::Pending };
        match connection.poll_message(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                if notice.severity() == "WARNING" {
                    self.warnings.push(notice.message().to_owned());
                }
                Poll::Ready(true)
            }
            Poll::Ready(Some(Ok(AsyncMessage::Notification(notification)))) => {
                self.notifications.push(notification);
                Poll::Ready(true)
            }
            Poll::Ready(Some(Ok(_))) => Poll::Ready(true),
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
                self.connection = None;
                Poll::Ready(false)
            }
            Poll::Ready(None) => {
                self.connection = None;
                Poll::Ready(false)
            }
        }
    }
}

/// Statements under way. The first poll queues all of them in order; the socket is not touched before that.
struct Pipeline<'a> {
    slots: Vec<Slot<'a>>,
    sent: bool,
}

enum Slot<'a> {
    Waiting(Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>),
    Done(Result<Vec<Row>, Error>),
}

impl Future for Pipeline<'_> {
    type Output = Result<Answers, Unsent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = false;
        for slot in &mut self.slots {
            let Slot::Waiting(call) = slot else { continue };
            match call.as_mut().poll(context) {
                Poll::Ready(done) => *slot = Slot::Done(done),
                Poll::Pending => waiting = true,
            }
        }
        if !std::mem::replace(&mut self.sent, true)
            && let Some(error) = self.take_error()
        {
            return Poll::Ready(Err(Unsent(error)));
        }
        if waiting {
            return Poll::Pending;
        }
        let done = std::mem::take(&mut self.slots).into_iter().map(|slot| match slot {
            Slot::Done(done) => done,
            Slot::Waiting(_) => unreachable!("link: no statement waits any more"),
        });
        Poll::Ready(Ok(done.collect()))
    }
}

impl Pipeline<'_> {
    /// The first statement that failed, if there is one.
    fn take_error(&mut self) -> Option<Error> {
        let at = self.slots.iter().position(|slot| matches!(slot, Slot::Done(Err(_))))?;
        match self.slots.swap_remove(at) {
            Slot::Done(Err(error)) => Some(error),
            _ => None,
        }
    }
}
