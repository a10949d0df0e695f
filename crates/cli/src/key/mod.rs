//! Commands about API keys.

pub mod change;
pub mod create;
pub mod get;
pub mod list;
pub mod offline;
pub mod revoke;
pub mod rotate;

use crate::fault::{Code, Fault};
use crate::remote::{Options, Remote, With};
use crate::terminal::{self, Colour};
use crate::{End, remote::Form, settings};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use weft_api::key::{CreatedKey, Key, KeyScope, RateClass};
use weft_api::op;
use weft_api::operation::NoBody;
use weft_api::page::PageQuery;

/// Make, show, change and revoke API keys
#[derive(clap::Subcommand)]
pub enum Command {
    Create(With<create::Args>),
    List(With<list::Args>),
    Get(With<get::Args>),
    Change(With<change::Args>),
    Rotate(With<rotate::Args>),
    Revoke(With<revoke::Args>),
}

pub fn run(command: Command, before: Options, colour: Colour) -> Result<End> {
    match command {
        Command::Create(with) if with.args.admin => {
            let options = with.options.or(before);
            settings::warn_of_unknown_variables();
            offline::run(&with.args.name, &with.args.store, &options)
        }
        Command::Create(with) => with.run_anywhere(before, colour, create::run),
        Command::List(with) => with.run_anywhere(before, colour, list::run),
        Command::Get(with) => with.run_anywhere(before, colour, get::run),
        Command::Change(with) => with.run_anywhere(before, colour, change::run),
        Command::Rotate(with) => with.run_anywhere(before, colour, rotate::run),
        Command::Revoke(with) => with.run_anywhere(before, colour, revoke::run),
    }
}

fn scopes() -> impl TypedValueParser<Value = KeyScope> {
    let find = |name: String| KeyScope::ALL.into_iter().find(|scope| scope.name() == name);
    PossibleValuesParser::new(KeyScope::ALL.map(KeyScope::name))
        .map(move |name| find(name).expect("scope: clap allows only names of scopes"))
}

fn rates() -> impl TypedValueParser<Value = RateClass> {
    PossibleValuesParser::new(["default", "worker", "none"]).map(|name| match name.as_str() {
        "worker" => RateClass::Worker,
        "none" => RateClass::None,
        _ => RateClass::Default,
    })
}

/// Every key.
async fn all(remote: &Remote) -> Result<Vec<Key>> {
    let mut query = PageQuery { limit: Some(1_000), cursor: None };
    let mut keys = Vec::new();
    loop {
        let page = remote.call::<op::ListKeys>("list keys", [], query.clone(), NoBody {}).await?;
        keys.extend(page.items);
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(keys),
        }
    }
}

/// The id of a key that is named by its id or by its name.
async fn id_of(remote: &Remote, named: &str) -> Result<String> {
    let keys = all(remote).await?;
    let mut found = keys.iter().filter(|key| key.id == named || key.name == named);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.id.clone()),
        (Some(_), Some(_)) => Err(Fault::new(Code::Refused, format!("several keys are named `{named}`"))
            .named("ambiguous_id")
            .hint("name it by its id; `weft key list` shows them")
            .into()),
        (None, _) => {
            let known = keys.iter().flat_map(|key| [key.id.as_str(), key.name.as_str()]);
            let hint = match weft_api::problem::nearest(named, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`weft key list` shows them".to_owned(),
            };
            Err(Fault::new(Code::Refused, format!("there is no key `{named}`"))
                .named("key_not_found")
                .hint(hint)
                .into())
        }
    }
}

/// Shows a secret the one time it can be shown.
fn put_secret(remote: &Remote, made: &CreatedKey) -> Result<()> {
    match remote.form {
        Form::Json | Form::Jsonl => terminal::put(&serde_json::to_string(made)?),
        Form::Ids | Form::People => {
            remote.say(&format!("key {} `{}`; its secret is shown this once:", made.key.id, made.key.name));
            terminal::put(&made.secret)
        }
    }
}
