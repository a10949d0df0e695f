//! Lists: which executions, and walking them page by page.

use super::{Remote, duration};
use crate::render::time::now_ms;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use weft_api::execution::{CountQuery, Execution, ListQuery, PublicState};
use weft_api::operation::NoBody;
use weft_api::{Moment, op};

/// The largest page of a list.
pub const PAGE_MAX: u32 = 1_000;

/// Which executions. Conditions are joined by and; none means every one of the namespace.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only those in this state; may be given more than once
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states(), help_heading = "Selection")]
    pub state: Vec<PublicState>,

    /// Only those of this lane
    #[arg(long, help_heading = "Selection")]
    pub lane: Option<String>,

    /// Only those of this kind
    #[arg(long, help_heading = "Selection")]
    pub kind: Option<String>,

    /// Only those with this tag
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag, help_heading = "Selection")]
    pub tag: Option<String>,

    /// Only children of this execution
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    pub parent: Option<String>,

    /// Only those that this worker instance holds
    #[arg(long, value_name = "INSTANCE", help_heading = "Selection")]
    pub worker: Option<String>,

    /// Only those submitted since then: `2h` ago, or a time like 2026-11-16T20:15:00Z
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Selection")]
    pub since: Option<Moment>,

    /// Only those submitted before then, written alike
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Selection")]
    pub until: Option<Moment>,
}

fn states() -> impl TypedValueParser<Value = PublicState> {
    let names = PublicState::ALL.map(PublicState::name);
    PossibleValuesParser::new(names)
        .map(|name| PublicState::from_name(&name).expect("state: clap allows only names of states"))
}

/// `key=value`, as it is.
fn tag(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.to_owned()),
        _ => Err("write `key=value`".to_owned()),
    }
}

/// A time in the past by its age, or an absolute one.
pub fn moment(text: &str) -> Result<Moment, String> {
    match duration(text) {
        Ok(age) => Ok(Moment(now_ms().saturating_sub(age.as_millis() as u64))),
        Err(_) => Moment::parse(text)
            .ok_or_else(|| "write an age like `2h` or `7d`, or a time like 2026-11-16T20:15:00Z".into()),
    }
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn list(&self) -> ListQuery {
        let Self { state, lane, kind, tag, parent, worker, since, until } = self.clone();
        ListQuery {
            state,
            lane,
            kind,
            tag,
            parent,
            worker,
            created_from: since,
            created_until: until,
            ..ListQuery::default()
        }
    }

    pub fn count(&self) -> CountQuery {
        let Self { state, lane, kind, tag, parent, worker, since, until } = self.clone();
        CountQuery {
            state,
            lane,
            kind,
            tag,
            parent,
            worker,
            created_from: since,
            created_until: until,
            ..CountQuery::default()
        }
    }
}

/// Hands page after page to `each` until that answers false or the list ends.
pub async fn walk(
    remote: &Remote,
    doing: &str,
    query: ListQuery,
    mut each: impl AsyncFnMut(Vec<Execution>) -> Result<bool>,
) -> Result<()> {
    let mut query = ListQuery { limit: Some(query.limit.unwrap_or(PAGE_MAX)), ..query };
    loop {
        let page = remote.call::<op::ListExecutions>(doing, [], query.clone(), NoBody {}).await?;
        let goes_on = each(page.items).await?;
        match page.next_cursor {
            Some(cursor) if goes_on => query.cursor = Some(cursor),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_an_age_or_absolute() {
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(Moment(1_000)));
        let hour_ago = moment("1h").unwrap().0;
        assert!(now_ms() - hour_ago >= 3_600_000 && now_ms() - hour_ago < 3_660_000);
        assert!(moment("yesterday").unwrap_err().contains("`2h`"));
    }

    #[test]
    fn a_tag_needs_a_key() {
        assert_eq!(tag("a=b=c"), Ok("a=b=c".to_owned()));
        assert!(tag("a").is_err() && tag("=b").is_err());
    }
}
