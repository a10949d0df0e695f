//! Options that every command takes that talks to a server, before the command's name or after it.

use super::{Form, Parting, Remote};
use crate::End;
use crate::fault::Fault;
use crate::settings;
use crate::terminal::{self, Colour};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Where a server is looked for.
pub const URL: &str = "http://127.0.0.1:7700";

/// How long a call may take if nobody says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Server to talk to [env: WEFT_URL] [default: http://127.0.0.1:7700]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    url: Option<String>,

    /// Key to show to it; other users of this machine can see it here, so rather set WEFT_KEY [env: WEFT_KEY]
    #[arg(long, value_name = "KEY", help_heading = "Server", conflicts_with = "key_file")]
    key: Option<String>,

    /// File that holds the key [env: WEFT_KEY_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    key_file: Option<PathBuf>,

    /// PEM file with the authorities to trust instead of the system's [env: WEFT_CA_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca_file: Option<PathBuf>,

    /// PEM file with a certificate, for a server that asks for one [env: WEFT_CLIENT_CERT]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    client_cert: Option<PathBuf>,

    /// PEM file with the key of that certificate [env: WEFT_CLIENT_KEY]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    client_key: Option<PathBuf>,

    /// Namespace to work in [env: WEFT_NAMESPACE]
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    namespace: Option<String>,

    /// How long a call may take, and a wait if it is given; like `30s` or `5m` [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Server", value_parser = some_time, allow_hyphen_values = true)]
    timeout: Option<Duration>,

    /// One JSON object on stdout
    #[arg(long, help_heading = "Output", conflicts_with = "jsonl")]
    json: bool,

    /// One line of JSON per item on stdout
    #[arg(long, help_heading = "Output")]
    jsonl: bool,

    /// Only ids and values, and no talk
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// A duration as it is written on the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    weft_config::duration::parse(text)
        .ok_or_else(|| "write a number and a unit: `250ms`, `30s`, `15m`, `24h`, `7d`".into())
}

/// The same, and not none of it.
fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing is done in no time; write `30s` or `5m`".to_owned()),
        time => Ok(time),
    }
}

impl Options {
    /// Whether a server is named, or how to talk to one.
    pub fn is_about_server(&self) -> bool {
        let Self { url, key, key_file, namespace, timeout, ca_file, client_cert, client_key, .. } = self;
        let files = [key_file, ca_file, client_cert, client_key];
        let texts = [url, key, namespace];
        timeout.is_some() || files.into_iter().any(Option::is_some) || texts.into_iter().any(Option::is_some)
    }

    /// Whether a server is named on the command line.
    pub fn names_server(&self) -> bool {
        self.url.is_some()
    }

    /// Whether a namespace is named on the command line.
    pub fn names_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// Whether a command that can look at a store or ask a server asks a server: what stands on the command line counts
    /// before the variable.
    pub fn asks_server(&self, store_is_named: bool) -> Result<bool> {
        match (self.url.is_some(), store_is_named) {
            (true, true) => Err(Fault::usage("`--url` and `--store` exclude each other: a server, or a store")),
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => Ok(variable("WEFT_URL").is_some()),
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub fn is_json(&self) -> bool {
        self.json || self.jsonl
    }

    /// For a command of its own kind; both forms of JSON at once are misuse.
    pub fn output(&self) -> Result<Form> {
        if self.quiet {
            terminal::be_quiet();
        }
        self.form()
    }

    /// These options where they are given, else those of `other`.
    pub fn or(self, other: Self) -> Self {
        let named_key = self.key.is_some() || self.key_file.is_some();
        Self {
            url: self.url.or(other.url),
            key: self.key.or(if named_key { None } else { other.key }),
            key_file: self.key_file.or(if named_key { None } else { other.key_file }),
            ca_file: self.ca_file.or(other.ca_file),
            client_cert: self.client_cert.or(other.client_cert),
            client_key: self.client_key.or(other.client_key),
            namespace: self.namespace.or(other.namespace),
            timeout: self.timeout.or(other.timeout),
            json: self.json || other.json,
            jsonl: self.jsonl || other.jsonl,
            quiet: self.quiet || other.quiet,
        }
    }

    fn form(&self) -> Result<Form> {
        match (self.json, self.jsonl) {
            (true, true) => Err(Fault::usage("`--json` and `--jsonl` exclude each other")),
            (true, false) => Ok(Form::Json),
            (false, true) => Ok(Form::Jsonl),
            (false, false) if self.quiet => Ok(Form::Ids),
            (false, false) => Ok(Form::People),
        }
    }

    /// The key: from a flag, else from the variables; surrounding space does not belong to it.
    fn find_key(&self) -> Result<Option<String>> {
        if let Some(key) = &self.key {
            return Ok(Some(key.trim().to_owned()));
        }
        let file = match &self.key_file {
            Some(file) => Some(file.clone()),
            None => match variable("WEFT_KEY") {
                Some(key) => return Ok(Some(key.trim().to_owned())),
                None => variable("WEFT_KEY_FILE").map(PathBuf::from),
            },
        };
        let Some(file) = file else { return Ok(None) };
        let text = std::fs::read_to_string(&file).with_context(|| {
            Fault::new(crate::fault::Code::Usage, format!("cannot read the key in `{}`", file.display()))
        })?;
        Ok(Some(text.trim().to_owned()))
    }

    /// Where the server is.
    pub fn find_url(&self) -> String {
        self.url.clone().or_else(|| variable("WEFT_URL")).unwrap_or_else(|| URL.to_owned())
    }

    /// A client for what runs on; nothing is sent yet.
    pub async fn client(&self) -> Result<weft_sdk::Client> {
        let namespace = self.namespace.clone().or_else(|| variable("WEFT_NAMESPACE"));
        self.client_in(namespace.as_deref()).await
    }

    async fn client_in(&self, namespace: Option<&str>) -> Result<weft_sdk::Client> {
        let mut builder = weft_sdk::Client::connect(self.find_url()).timeout(self.timeout.unwrap_or(TIMEOUT));
        if let Some(key) = self.find_key()? {
            builder = builder.key(key);
        }
        if let Some(namespace) = namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(file) = file(&self.ca_file, "WEFT_CA_FILE") {
            builder = builder.ca_file(file);
        }
        match (file(&self.client_cert, "WEFT_CLIENT_CERT"), file(&self.client_key, "WEFT_CLIENT_KEY")) {
            (Some(cert), Some(key)) => builder = builder.client_cert(cert, key),
            (None, None) => {}
            _ => {
                let text = "a certificate goes with its key: give both `--client-cert` and `--client-key`, or neither";
                return Err(Fault::usage(text));
            }
        }
        builder.build().await.map_err(|error| super::problem::fault("connect", error))
    }

    /// Connects. With `inside` calls are made in a namespace, otherwise they are about the deployment as a whole.
    async fn connect(self, colour: Colour, inside: bool, parting: Parting) -> Result<Remote> {
        let form = self.form()?;
        let namespace = self.namespace.clone().or_else(|| variable("WEFT_NAMESPACE"));
        let client = self.client_in(namespace.as_deref().filter(|_| inside)).await?;
        Ok(Remote {
            client,
            namespace,
            given_namespace: self.namespace,
            form,
            quiet: self.quiet,
            colour,
            patience: self.timeout,
            parting,
        })
    }
}

/// A file by its flag, else by its variable.
fn file(flag: &Option<PathBuf>, name: &str) -> Option<PathBuf> {
    flag.clone().or_else(|| variable(name).map(PathBuf::from))
}

/// A variable that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

// The arguments of a command with the options of its server. Not a doc comment: clap would show it as the help of every
// command, in place of what the arguments say.
#[derive(clap::Args)]
pub struct With<A: clap::Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    pub options: Options,
}

impl<A: clap::Args> With<A> {
    /// Connects and runs `command`. What was said before the command's name counts where nothing was said after it.
    pub fn run<F: Future<Output = Result<End>>>(
        self,
        before: Options,
        colour: Colour,
        command: impl FnOnce(A, Remote) -> F,
    ) -> Result<End> {
        self.run_as(before, colour, true, command)
    }

    /// The same for a command that is not about one namespace, whatever namespace is named.
    pub fn run_anywhere<F: Future<Output = Result<End>>>(
        self,
        before: Options,
        colour: Colour,
        command: impl FnOnce(A, Remote) -> F,
    ) -> Result<End> {
        self.run_as(before, colour, false, command)
    }

    fn run_as<F: Future<Output = Result<End>>>(
        self,
        before: Options,
        colour: Colour,
        inside: bool,
        command: impl FnOnce(A, Remote) -> F,
    ) -> Result<End> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("could not start the runtime")?;
        let (options, parting) = (self.options.or(before), Parting::default());
        let (quiet, last_word) = (options.quiet, parting.clone());
        match quiet {
            true => terminal::hide_bars(),
            false => settings::warn_of_unknown_variables(),
        }
        let work = async {
            let remote = options.connect(colour, inside, parting).await?;
            command(self.args, remote).await
        };
        let ended = runtime.block_on(async {
            tokio::select! {
                ended = work => ended,
                heard = tokio::signal::ctrl_c() => {
                    heard.context("could not listen for interrupts")?;
                    if let Some(line) = last_word.take().await.filter(|_| !quiet) {
                        terminal::say(&line);
                    }
                    Ok(End::Interrupted)
                }
            }
        });
        // A thread may still wait for a line of the terminal; nobody waits for that thread.
        runtime.shutdown_background();
        ended
    }
}

// The arguments of a command that talks to no server. Not a doc comment, for the same reason.
#[derive(clap::Args)]
pub struct Here<A: clap::Args> {
    #[command(flatten)]
    pub args: A,
    /// Only what was asked for, and no talk
    #[arg(long, short, global = true, help_heading = "Output")]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_after_the_command_wins() {
        let before = Options { url: Some("a".into()), key: Some("k".into()), quiet: true, ..Options::default() };
        let after = Options { url: Some("b".into()), key_file: Some("f".into()), ..Options::default() };
        let both = after.or(before);
        assert_eq!((both.url.as_deref(), both.key, both.quiet), (Some("b"), None, true));
        assert!(Options { json: true, jsonl: true, ..Options::default() }.form().is_err());
    }

    #[test]
    fn ops_2_a_time_without_a_unit_is_refused_with_examples() {
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert!(duration("15").unwrap_err().contains("`15m`"));
        assert!(some_time("0s").is_err() && some_time("1ms").is_ok());
    }
}
