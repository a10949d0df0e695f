//! One connection to one server, made again when it breaks. Never sends anything twice.

use crate::options::{Address, Login, Options};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, ServerError, Value};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use weft_tls::Trust;

/// Calls that may wait for one connection to take them; far above what the engine sends at once.
const WAITING_MAX: usize = 4096;
/// Commits of several partitions that wait are written to the socket together up to this size.
const WRITE_BYTES: usize = 256 << 10;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no good reply.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It never left this process.
    #[error("could not reach `{address}`: {why}")]
    NotSent { address: Address, why: Source },
    /// It may have been carried out.
    #[error("the connection to `{address}` broke before the reply: {why}")]
    Lost { address: Address, why: Source },
    /// It was carried out, and is not on as many servers as it has to be.
    #[error("the commit on `{address}` reached {reached} of {needed} replicas in time")]
    Short { address: Address, reached: i64, needed: u32 },
    #[error("`{address}` replied: {error}")]
    Reply { address: Address, error: ServerError },
    /// A part of it was carried out, which must never be.
    #[error("a commit on `{address}` failed half-way: {why}")]
    Broken { address: Address, why: String },
}

/// How to connect to a server.
#[derive(Clone, Debug)]
pub struct Dial {
    pub address: Address,
    login: Option<Login>,
    database: i64,
    tls: Option<Trust>,
    connect_timeout: Duration,
    pub call_timeout: Duration,
}

impl Dial {
    pub fn new(address: Address, options: &Options) -> Self {
        Self {
            address,
            login: options.login.clone(),
            database: options.database,
            tls: options.tls.clone(),
            connect_timeout: options.connect_timeout,
            call_timeout: options.call_timeout,
        }
    }

    fn settings(&self) -> RedisConnectionInfo {
        let settings = RedisConnectionInfo::default().set_db(self.database).set_lib_name("weft", "1");
        match &self.login {
            None => settings,
            Some(login) if login.user.is_empty() => settings.set_password(&login.password),
            Some(login) => settings.set_password(&login.password).set_username(&login.user),
        }
    }

    /// A connection that is used for a few questions and dropped.
    pub async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.call_timeout));
        // Its task ends with the last handle to the connection.
        Ok(self.connect_with(config).await?.0)
    }

    /// A connection that is kept, with a task of ours, so that it is known when the server has closed it.
    async fn connect_to_keep(&self) -> Result<Kept, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(self.call_timeout))
            .set_pipeline_buffer_size(WAITING_MAX)
            .set_write_backpressure_boundary(WRITE_BYTES);
        let (connection, task) = self.connect_with(config).await?;
        Ok((connection, Arc::new(Driver(task))))
    }

    async fn connect_with(
        &self,
        config: AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, JoinHandle<()>), RedisError> {
        let settings = self.settings();
        let connecting =
            async { MultiplexedConnection::new_with_config(&settings, self.stream().await?, config).await };
        let (connection, driver) = self.in_time(connecting).await?;
        Ok((connection, tokio::spawn(driver)))
    }

    /// A connection that hears what is published.
    pub async fn subscriber(&self) -> Result<PubSub, RedisError> {
        self.in_time(async { PubSub::new(&self.settings(), self.stream().await?).await }).await
    }

    async fn in_time<T>(&self, connecting: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
        let timed_out = |_| match &self.tls {
            // A server that takes a greeting for the beginning of a command waits for the rest of it.
            Some(_) => {
                io::Error::new(io::ErrorKind::TimedOut, "timed out; perhaps the server speaks no TLS on this port")
            }
            None => io::ErrorKind::TimedOut.into(),
        };
        tokio::time::timeout(self.connect_timeout, connecting)
            .await
            .map_err(|late| RedisError::from(timed_out(late)))?
    }

    async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        stream.set_nodelay(true)?;
        let Some(trust) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(self.address.host.clone()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(trust.config().map_err(io::Error::other)?);
        match connector.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => {
                let advice = weft_tls::advice(&error, "cacert").unwrap_or_else(|| error.to_string());
                Err(io::Error::new(error.kind(), advice))
            }
        }
    }

    pub fn not_sent(&self, why: impl Into<Source>) -> Fault {
        Fault::NotSent { address: self.address.clone(), why: why.into() }
    }

    fn lost(&self, why: impl Into<Source>) -> Fault {
        Fault::Lost { address: self.address.clone(), why: why.into() }
    }
}

/// What a connection reads and writes, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that may be down.
pub struct Link {
    pub dial: Dial,
    live: Arc<Mutex<Live>>,
}

/// A connection and the task behind it.
type Kept = (MultiplexedConnection, Arc<Driver>);

/// A try to connect, shared by all calls that need the connection.
type Dialing = Shared<BoxFuture<'static, Result<Lease, String>>>;

/// The task behind a connection. It ends when the server closes the connection, and with its last user.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Default)]
struct Live {
    connection: Option<Kept>,
    /// Grows with each connection, so that one call's trouble does not end the next connection.
    number: u64,
    dialing: Option<Dialing>,
}

impl Live {
    /// The connection, unless there is none or the server has closed it: then nothing would be sent.
    fn lease(&self) -> Option<Lease> {
        let (connection, driver) = self.connection.as_ref().filter(|(_, driver)| !driver.0.is_finished())?;
        Some(Lease { connection: connection.clone(), number: self.number, _driver: driver.clone() })
    }
}

impl Link {
    /// Whether there is a connection, and a call that uses it now.
    pub fn in_use(&self) -> Option<bool> {
        let live = lock(&self.live);
        let (_, driver) = live.connection.as_ref().filter(|(_, driver)| !driver.0.is_finished())?;
        // One is kept here; each call has its own.
        Some(Arc::strong_count(driver) > 1)
    }
}

/// A connection as one call uses it.
#[derive(Clone)]
pub struct Lease {
    connection: MultiplexedConnection,
    number: u64,
    _driver: Arc<Driver>,
}

impl Lease {
    pub fn number(&self) -> u64 {
        self.number
    }
}

fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to connect. When that is over, however it ended, the next call may try again.
fn begin(dial: Dial, live: Arc<Mutex<Live>>) -> Dialing {
    let task = tokio::spawn(async move {
        let dialed = dial.connect_to_keep().await;
        let mut live = lock(&live);
        live.dialing = None;
        let (connection, driver) = dialed.map_err(|error| error.to_string())?;
        live.number += 1;
        live.connection = Some((connection.clone(), driver.clone()));
        Ok(Lease { connection, number: live.number, _driver: driver })
    });
    task.map(|ended| ended.unwrap_or_else(|gone| Err(gone.to_string()))).boxed().shared()
}

impl Link {
    pub fn new(dial: Dial) -> Self {
        Self { dial, live: Arc::default() }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// The connection, made if need be. It is made in a task of its own: a call that nobody polls holds up no other.
    pub async fn open(&self) -> Result<Lease, Fault> {
        let dialing = {
            let mut live = self.live();
            if let Some(lease) = live.lease() {
                return Ok(lease);
            }
            live.dialing.get_or_insert_with(|| begin(self.dial.clone(), self.live.clone())).clone()
        };
        dialing.await.map_err(|why| self.dial.not_sent(why))
    }

    fn end(&self, lease: &Lease) {
        let mut live = self.live();
        if live.number == lease.number {
            live.connection = None;
        }
    }

    /// Sends one command and waits for its reply. With `asking` the server is told that a redirect led here.
    pub async fn call(&self, command: &Cmd, asking: bool) -> Result<Value, Fault> {
        let lease = self.open().await?;
        let mut connection = lease.connection.clone();
        let replied = if asking {
            // Both in one message: nothing of another call can come between them.
            let mut both = Pipeline::with_capacity(2);
            both.add_command(redis::cmd("ASKING")).add_command(command.clone());
            self.send_on(&lease, &both, 2).await?.pop().unwrap_or_default()
        } else {
            connection.send_packed_command(command).await.map_err(|error| self.lost(&lease, error))?
        };
        match replied {
            Value::ServerError(error) => Err(Fault::Reply { address: self.dial.address.clone(), error }),
            value => Ok(value),
        }
    }

    /// Sends commands in one message and waits for all their replies, errors among them.
    pub async fn send_on(&self, lease: &Lease, commands: &Pipeline, count: usize) -> Result<Vec<Value>, Fault> {
        let mut connection = lease.connection.clone();
        let replies = connection.send_packed_commands(commands, 0, count).await;
        let replies = replies.map_err(|error| self.lost(lease, error))?;
        match replies.len() == count {
            true => Ok(replies),
            false => Err(self.dial.lost("it sent fewer replies than it was asked for")),
        }
    }

    /// After a timeout the connection may be dead without knowing it. A command that is still on its way is carried out
    /// or not; whoever sent it has to ask.
    fn lost(&self, lease: &Lease, error: RedisError) -> Fault {
        self.end(lease);
        self.dial.lost(error)
    }

    /// Loads the library.
    pub async fn load(&self, code: &'static str) -> Result<(), Fault> {
        let lease = self.open().await?;
        load_with(lease.connection.clone(), code).await.map_err(|error| self.dial.not_sent(error))
    }
}

/// A library of that name stays as it is: older nodes may call it. A user without the right to load relies on
/// somebody else having done it.
async fn load_with(mut connection: MultiplexedConnection, code: &str) -> Result<(), RedisError> {
    match connection.send_packed_command(redis::cmd("FUNCTION").arg("LOAD").arg(code)).await? {
        Value::ServerError(error) => {
            let there_already = error.details().is_some_and(|detail| detail.contains("already exists"));
            match error.code() {
                "NOPERM" => Ok(()),
                "ERR" if there_already => Ok(()),
                _ => Err(RedisError::from(error)),
            }
        }
        _ => Ok(()),
    }
}
