//! Lists: which executions, and walking them page by page.

use super::{Remote, duration, flow_name, names};
use crate::fault::Fault;
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

    /// Only members of this flow, by its id or a unique end of it
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    pub flow: Option<String>,

    /// Only those that this worker instance holds
    #[arg(long, value_name = "INSTANCE", help_heading = "Selection")]
    pub worker: Option<String>,

    /// Only those submitted since then: `2h` ago, or a time like 2026-11-16T20:15:00Z
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Selection")]
    pub since: Option<Moment>,

    /// Only those submitted before then, written alike
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Selection")]
    pub until: Option<Moment>,

    /// The same in one text: 'lane=mail state=failed,expired tag=customer=acme'
    #[arg(long, value_name = "NAME=VALUE …", value_parser = terms, help_heading = "Selection")]
    pub filter: Vec<Terms>,
}

/// A condition by its name.
type Terms = Vec<(Condition, String)>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    State,
    Lane,
    Kind,
    Tag,
    Parent,
    Flow,
    Worker,
    Since,
    Until,
}

impl Condition {
    const ALL: [(&'static str, Condition); 9] = [
        ("state", Condition::State),
        ("lane", Condition::Lane),
        ("kind", Condition::Kind),
        ("tag", Condition::Tag),
        ("parent", Condition::Parent),
        ("flow", Condition::Flow),
        ("worker", Condition::Worker),
        ("since", Condition::Since),
        ("until", Condition::Until),
    ];
}

/// `lane=mail state=failed`, each part checked as its flag would be.
fn terms(text: &str) -> Result<Terms, String> {
    let mut terms = Vec::new();
    for word in text.split_whitespace() {
        let names = || Condition::ALL.map(|(name, _)| name);
        let Some((name, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(format!("`{word}` is no condition; write `NAME=VALUE` with one of {}", names().join(", ")));
        };
        let Some((_, condition)) = Condition::ALL.into_iter().find(|(known, _)| *known == name) else {
            return Err(match weft_api::problem::nearest(name, names()) {
                Some(near) => format!("there is no condition `{name}`; did you mean `{near}`?"),
                None => format!("there is no condition `{name}`; there are {}", names().join(", ")),
            });
        };
        Filter::default().take(condition, value)?;
        terms.push((condition, value.to_owned()));
    }
    match terms.is_empty() {
        true => Err("write conditions like `lane=mail state=failed`".to_owned()),
        false => Ok(terms),
    }
}

/// Names of the states of an execution.
pub fn states() -> impl TypedValueParser<Value = PublicState> {
    let names = PublicState::ALL.map(PublicState::name);
    PossibleValuesParser::new(names)
        .map(|name| PublicState::from_name(&name).expect("state: clap allows only names of states"))
}

/// `key=value`, as it is.
pub fn tag(text: &str) -> Result<String, String> {
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
    /// One condition of `--filter`, as if it had been a flag.
    fn take(&mut self, condition: Condition, value: &str) -> Result<(), String> {
        fn once<T>(place: &mut Option<T>, value: T) -> Result<(), String> {
            match place.replace(value) {
                None => Ok(()),
                Some(_) => Err("a condition is given twice".to_owned()),
            }
        }
        let text = || value.to_owned();
        match condition {
            Condition::State => {
                for name in value.split(',') {
                    let near = || weft_api::problem::nearest(name, PublicState::ALL.map(PublicState::name));
                    let unknown = || match near() {
                        Some(near) => format!("there is no state `{name}`; did you mean `{near}`?"),
                        None => format!("there is no state `{name}`"),
                    };
                    self.state.push(PublicState::from_name(name).ok_or_else(unknown)?);
                }
                Ok(())
            }
            Condition::Lane => once(&mut self.lane, text()),
            Condition::Kind => once(&mut self.kind, text()),
            Condition::Tag => once(&mut self.tag, tag(value)?),
            Condition::Parent => once(&mut self.parent, text()),
            Condition::Flow => once(&mut self.flow, text()),
            Condition::Worker => once(&mut self.worker, text()),
            Condition::Since => once(&mut self.since, moment(value)?),
            Condition::Until => once(&mut self.until, moment(value)?),
        }
    }

    /// The conditions of `--filter` among the others, and parent and flow by their whole ids.
    pub async fn resolve(mut self, remote: &Remote) -> anyhow::Result<Self> {
        for (condition, value) in std::mem::take(&mut self.filter).into_iter().flatten() {
            let twice = |why| Fault::usage(format!("`{value}` of `--filter`: {why}, in it or by its flag"));
            self.take(condition, &value).map_err(twice)?;
        }
        if let Some(parent) = self.parent.take() {
            self.parent = names(remote, &[parent]).await?.pop();
        }
        if let Some(flow) = self.flow.take() {
            self.flow = Some(flow_name(remote, &flow).await?);
        }
        Ok(self)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn list(&self) -> ListQuery {
        let Self { state, lane, kind, tag, parent, flow, worker, since, until, filter: _ } = self.clone();
        ListQuery {
            state,
            lane,
            kind,
            tag,
            parent,
            flow,
            worker,
            created_from: since,
            created_until: until,
            ..ListQuery::default()
        }
    }

    pub fn bulk(&self) -> weft_api::bulk::Filter {
        let Self { state, lane, kind, tag, parent, flow, worker, since, until, filter: _ } = self.clone();
        weft_api::bulk::Filter {
            state,
            lane,
            kind,
            tag,
            parent,
            flow,
            worker,
            created_from: since,
            created_until: until,
            ..weft_api::bulk::Filter::default()
        }
    }

    pub fn count(&self) -> CountQuery {
        let Self { state, lane, kind, tag, parent, flow, worker, since, until, filter: _ } = self.clone();
        CountQuery {
            state,
            lane,
            kind,
            tag,
            parent,
            flow,
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
    fn a_filter_in_one_text_is_that_of_the_flags() {
        let mut filter = Filter::default();
        for (condition, value) in terms("lane=mail  state=failed,expired tag=a=b since=1970-01-01T00:00:01Z").unwrap() {
            filter.take(condition, &value).unwrap();
        }
        let flags = Filter {
            lane: Some("mail".into()),
            state: vec![PublicState::Failed, PublicState::Expired],
            tag: Some("a=b".into()),
            since: Some(Moment(1_000)),
            ..Filter::default()
        };
        assert_eq!(filter, flags);
        assert!(filter.take(Condition::Lane, "web").is_err());
        for (text, part) in [
            ("lnae=mail", "did you mean `lane`?"),
            ("state=failled", "did you mean `failed`?"),
            ("mail", "`mail` is no condition"),
            ("tag=a", "`key=value`"),
            (" ", "lane=mail"),
        ] {
            let told = terms(text).unwrap_err();
            assert!(told.contains(part), "{text}: {told}");
        }
    }

    #[test]
    fn a_tag_needs_a_key() {
        assert_eq!(tag("a=b=c"), Ok("a=b=c".to_owned()));
        assert!(tag("a").is_err() && tag("=b").is_err());
    }
}
