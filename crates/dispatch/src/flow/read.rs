//! Reads of flows, each a page of bounded size.

use super::view;
use crate::across::{Asked, Of};
use crate::cursor::Bound;
use crate::read::{limit, one, tag};
use crate::rejection::problem;
use crate::submit::time;
use crate::{Acting, Answer, execution_id, text};
use weft_api::execution::Order;
use weft_api::flow as wire;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::page::PageQuery;
use weft_api::{Args, Page, Problem, Reply};
use weft_core::FlowId;
use weft_core::error::Rejection;
use weft_core::limits::LIST_LIMIT_MAX;
use weft_core::record::flow::PublicFlowState;
use weft_engine::Client;
use weft_engine::flow::{EdgeFilter, EdgePage, EdgePlace, FlowFilter, MemberFilter, MemberOrder};

type One<Q> = Args<[String; 1], Q, NoBody>;

impl Acting<'_> {
    pub async fn get_flow(&self, args: One<wire::FlowQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let until = until(args.query.until.as_deref())?;
        let found = match args.query.wait_ms {
            None if args.query.until.is_some() => {
                let why = "is given without `wait_ms`, which says how long to wait for it";
                return Err(Problem::invalid("until", why));
            }
            None => client.flow(id).await,
            Some(wait_ms) => client.wait_flow(id, until, wait_ms).await,
        };
        let found = found.map_err(problem)?;
        let flow = wire::Flow {
            reached: args.query.wait_ms.map(|_| found.reached),
            ..view::flow(&found.flow, found.revision, self.engine.now())
        };
        Ok(Answer { revision: Some(found.revision.to_string()), ..Reply::GetFlow(flow).into() })
    }

    /// One page. A caller that could mean several namespaces and names none gets all of them, one after the other.
    pub async fn list_flows(&self, args: Args<[String; 0], wire::FlowsQuery, NoBody>) -> Result<Answer, Problem> {
        let mut query = args.query;
        let asked = Asked { cursor: query.cursor.take(), limit: limit(query.limit.take())? };
        let filter = filter(&query)?;
        let now = self.engine.now();
        let page = self.across(Of::Executions, "list_flows", &query, asked, |client, cursor, limit| {
            let filter = FlowFilter { limit: Some(limit), cursor, ..filter.clone() };
            async move {
                let page = client.flows(filter).await.map_err(problem)?;
                let good = page.flows.iter().map(|(flow, revision)| Ok(view::flow(flow, *revision, now)));
                let damaged = page.damaged.iter().map(|id| Err(id.to_string()));
                Ok((good.chain(damaged).collect::<Vec<Result<wire::Flow, String>>>(), page.next_cursor))
            }
        });
        let Page { items: found, next_cursor } = page.await?;
        let (mut items, mut damaged) = (Vec::new(), Vec::new());
        for row in found {
            match row {
                Ok(flow) => items.push(flow),
                Err(id) => damaged.push(id),
            }
        }
        Ok(Reply::ListFlows(wire::Flows { items, damaged, next_cursor }).into())
    }

    pub async fn list_members(&self, args: One<wire::MembersQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let mut query = args.query;
        let (cursor, limit) = (query.cursor.take(), limit(query.limit.take())?);
        let bound = Bound::new("list_members", &args.path[0], &query);
        let order = match query.order {
            Some(wire::MemberOrder::Key) => {
                MemberOrder::Key(opened(&bound, cursor.as_deref(), |key| Some(key.into()))?)
            }
            Some(wire::MemberOrder::Added) | None => MemberOrder::Added(opened(&bound, cursor.as_deref(), number)?),
        };
        let filter = MemberFilter {
            states: query.state.iter().map(|state| crate::view::core_state(*state)).collect(),
            against: query.against,
            begun: query.begun,
            parent: query.parent.as_deref().map(execution_id).transpose()?,
            key: query.key.as_deref().map(Into::into),
            order,
            limit: Some(limit),
        };
        let page = client.members(id, filter).await.map_err(problem)?;
        let now = self.engine.now();
        let members = page.members.iter();
        let members = wire::Members {
            items: members.map(|(execution, revision)| crate::view::execution(execution, *revision, now)).collect(),
            damaged: page.damaged.iter().map(ToString::to_string).collect(),
            next_cursor: page.next.as_ref().and_then(behind).map(|place| bound.seal(&place)),
        };
        Ok(Reply::ListMembers(members).into())
    }

    pub async fn list_edges(&self, args: One<wire::EdgesQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let mut query = args.query;
        let (cursor, limit) = (query.cursor.take(), limit(query.limit.take())?);
        let bound = Bound::new("list_edges", &args.path[0], &query);
        let filter = EdgeFilter {
            upstream: query.from.map(text),
            downstream: query.to.map(text),
            group: query.group.map(text),
            state: query.state.map(|state| state.name().into()),
            after: opened(&bound, cursor.as_deref(), edge_place)?,
            limit: Some(limit),
        };
        let page = edges(&client, id, filter).await?;
        let edges = wire::Edges {
            items: page.edges.iter().map(view::edge).collect(),
            damaged: page.damaged.iter().map(|(upstream, number)| format!("{upstream}#{number}")).collect(),
            next_cursor: page.next.map(|(member, edge)| bound.seal(&format!("{member}.{edge}"))),
        };
        Ok(Reply::ListEdges(edges).into())
    }

    pub async fn list_groups(&self, args: One<wire::GroupsQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let limit = limit(args.query.limit)?;
        let bound = Bound::new("list_groups", &args.path[0], &args.query.state);
        let after = opened(&bound, args.query.cursor.as_deref(), pair)?;
        let (items, next) = groups(&client, id, args.query.state, after, limit).await?;
        let next_cursor = next.map(|(member, group)| bound.seal(&format!("{member}.{group}")));
        Ok(Reply::ListGroups(Page { items, next_cursor }).into())
    }

    pub async fn get_group(&self, args: Args<[String; 3], NoQuery, NoBody>) -> Result<Answer, Problem> {
        let [flow, member, name] = &args.path;
        let (id, client) = self.one_flow(flow).await?;
        let group = client.group(id, member, name).await.map_err(problem);
        let group = super::nearest::of_flow(&client, id, Vec::new(), group).await?;
        Ok(Reply::GetGroup(view::group_detail(&group)).into())
    }

    /// Nodes first, and then edges, so that whoever draws knows both ends of each edge.
    pub async fn get_graph(&self, args: One<PageQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let limit = limit(args.query.limit)?;
        let bound = Bound::new("get_graph", &args.path[0], &());
        let begin = opened(&bound, args.query.cursor.as_deref(), drawn)?.unwrap_or(Drawn::Nodes(None));
        let flow = client.flow(id).await.map_err(problem)?.flow;
        let mut graph = wire::Graph {
            id: flow.id.to_string(),
            kind: flow.definition.kind.to_string(),
            public_flow_state: view::state(flow.public_state()),
            revision: flow.hot.revision,
            nodes: Vec::new(),
            edges: Vec::new(),
            next_cursor: None,
        };
        let has_edges = flow.summary.edges_total > 0;
        let next = draw(&client, id, begin, limit, &mut graph).await?.filter(|next| has_edges || next != EDGES);
        graph.next_cursor = next.map(|next| bound.seal(&next));
        Ok(Reply::GetGraph(graph).into())
    }

    pub async fn explain_flow(&self, args: One<NoQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let explanation = client.explain_flow(id).await.map_err(problem)?;
        Ok(Reply::ExplainFlow(super::explain::explanation(explanation, self.engine.now())).into())
    }
}

/// One page of edges, and where the next one begins if there is something in it.
async fn edges(client: &Client, id: FlowId, filter: EdgeFilter) -> Result<EdgePage, Problem> {
    let mut page = client.edges(id, filter.clone()).await.map_err(problem)?;
    if page.next.is_none() {
        return Ok(page);
    }
    // A page that is full says only where it ended. The cursor is absent exactly at the end, so one more is looked for.
    let behind = EdgeFilter { after: page.next, limit: Some(1), ..filter };
    let behind = client.edges(id, behind).await.map_err(problem)?;
    let more = !behind.edges.is_empty() || !behind.damaged.is_empty() || behind.next.is_some();
    page.next = page.next.filter(|_| more);
    Ok(page)
}

/// Groups behind a place, member by member: a member has few of them.
async fn groups(
    client: &Client,
    id: FlowId,
    state: Option<wire::GroupState>,
    after: Option<EdgePlace>,
    limit: usize,
) -> Result<(Vec<wire::Group>, Option<EdgePlace>), Problem> {
    let mut items = Vec::new();
    let mut last = after;
    // The member of the last group may have more of them.
    let mut members_after = after.and_then(|(member, _)| member.checked_sub(1));
    for _ in 0..PAGES_MAX {
        let filter = MemberFilter::added_after(members_after, LIST_LIMIT_MAX);
        let page = client.members(id, filter).await.map_err(problem)?;
        for member in page.members.iter().filter_map(|(execution, _)| execution.member()) {
            for (at, group) in view::groups(member).into_iter().enumerate() {
                let place = (member.number, at as u32);
                let meant = state.is_none_or(|state| state == group.state);
                if !meant || after.is_some_and(|after| place <= after) {
                    continue;
                }
                // One more than fits was found, so that a cursor is given exactly if something follows.
                if items.len() == limit {
                    return Ok((items, last));
                }
                items.push(group);
                last = Some(place);
            }
        }
        members_after = page.next_added();
        let Some(next) = members_after else { return Ok((items, None)) };
        // Nothing of the members that were looked at is left.
        last = Some((next, u32::MAX));
    }
    Ok((items, last))
}

/// Pages of members that one page of groups looks at; one that found little in so many is short, and has a cursor.
const PAGES_MAX: usize = 10;

/// Where a drawing goes on.
enum Drawn {
    Nodes(Option<u32>),
    Edges(Option<EdgePlace>),
}

/// Fills a page; answers where the next one begins.
async fn draw(
    client: &Client,
    id: FlowId,
    begin: Drawn,
    limit: usize,
    graph: &mut wire::Graph,
) -> Result<Option<String>, Problem> {
    let after = match begin {
        Drawn::Edges(after) => after,
        Drawn::Nodes(after) => {
            let filter = MemberFilter::added_after(after, limit);
            let page = client.members(id, filter).await.map_err(problem)?;
            graph.nodes = page.members.iter().filter_map(|(execution, _)| view::node(execution)).collect();
            if let Some(next) = page.next_added() {
                return Ok(Some(format!("n{next}")));
            }
            None
        }
    };
    let room = limit.saturating_sub(graph.nodes.len());
    if room == 0 {
        return Ok(Some(EDGES.to_string()));
    }
    let filter = EdgeFilter { after, limit: Some(room), ..EdgeFilter::default() };
    let page = edges(client, id, filter).await?;
    graph.edges = page.edges.iter().map(view::edge).collect();
    Ok(page.next.map(|(member, edge)| format!("{EDGES}{member}.{edge}")))
}

/// What a cursor begins with that is among the edges of a drawing.
const EDGES: &str = "e";

fn drawn(text: &str) -> Option<Drawn> {
    match text.strip_prefix('n') {
        Some(after) => Some(Drawn::Nodes(Some(number(after)?))),
        None => match text.strip_prefix(EDGES)? {
            "" => Some(Drawn::Edges(None)),
            after => Some(Drawn::Edges(Some(edge_place(after)?))),
        },
    }
}

/// What a cursor says of where a list of members goes on.
fn behind(order: &MemberOrder) -> Option<String> {
    match order {
        MemberOrder::Added(after) => after.map(|number| number.to_string()),
        MemberOrder::Key(after) => after.as_ref().map(ToString::to_string),
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn pair(text: &str) -> Option<EdgePlace> {
    let (first, second) = text.split_once('.')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// The place of an edge. Anybody can make a cursor up; no edge has the last number, behind which there is none.
fn edge_place(text: &str) -> Option<EdgePlace> {
    pair(text).filter(|(_, edge)| *edge < u32::MAX)
}

/// What a cursor of this list says.
fn opened<T>(bound: &Bound, cursor: Option<&str>, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let inner = bound.open(cursor)?;
    read(&inner).map(Some).ok_or_else(|| problem(Rejection::InvalidCursor))
}

fn until(until: Option<&str>) -> Result<Option<PublicFlowState>, Problem> {
    match until {
        None | Some("done") => Ok(None),
        Some(name) => match wire::PublicFlowState::from_name(name) {
            Some(state) => Ok(Some(view::core_state(state))),
            None => {
                let states = wire::PublicFlowState::ALL.map(|state| state.name());
                let known: Vec<&str> = ["done"].into_iter().chain(states).collect();
                let problem = Problem::invalid("until", format!("is `{name}`, allowed are `{}`", known.join("`, `")));
                Err(problem.suggest(name, known))
            }
        },
    }
}

fn filter(query: &wire::FlowsQuery) -> Result<FlowFilter, Problem> {
    Ok(FlowFilter {
        states: query.state.iter().map(|state| view::core_state(*state)).collect(),
        kind: one("kind", query.kind.as_deref())?,
        tag: tag(query.tag.as_deref())?,
        created_from: query.created_from.map(time),
        created_until: query.created_until.map(time),
        finished_from: query.finished_from.map(time),
        finished_until: query.finished_until.map(time),
        ascending: query.order == Some(Order::Asc),
        limit: None,
        cursor: None,
    })
}
