//! Members and edges as they were asked for, checked and put in order: the same for a new flow and for one that grows.

use super::problem::{Problems, Wrong};
use crate::command::{NewEdge, NewGroup};
use crate::error::Rejection;
use crate::limits::{GROUP_NAME_MAX, GROUPS_PER_MEMBER_MAX, INPUT_NAME_MAX, Limits};
use crate::record::edge::On;
use crate::record::member::{Group, GroupPolicy, Then};
use crate::text::{Text, check_printable};
use std::collections::{BTreeMap, BTreeSet};

/// An end of edges: a member that is there or is to be added.
pub(crate) struct Node<'a> {
    pub key: Text,
    /// Groups that it has, and edges in each direction.
    pub groups: Vec<Group>,
    pub ins: u32,
    pub outs: u32,
    /// Names of the inputs it has, those that collect lists left out.
    pub inputs: BTreeSet<Text>,
    pub declared: &'a [NewGroup],
    /// Where the groups are declared.
    pub path: usize,
    /// No more edges follow, so its groups must be able to be satisfied by those that it has.
    pub sealed: bool,
    /// How many edges its groups had before the call; none of a member that is to be added.
    pub had: Option<Vec<u32>>,
}

impl Node<'_> {
    /// Whether the call adds the group, or edges to it.
    fn is_given(&self, at: usize) -> bool {
        let had = self.had.as_ref().map(|had| had.get(at).copied());
        had.is_none_or(|had| had.is_none_or(|had| self.groups[at].n > had))
    }
}

/// An edge between nodes, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub from: usize,
    pub to: usize,
    pub group: u8,
    pub on: On,
    pub input: Option<Text>,
    /// It is there already.
    pub existed: bool,
}

/// What is known of an edge that is there: its condition and name.
type Known = (On, Option<Text>);
pub(crate) type Existing<'a> = dyn FnMut(usize, usize, u8) -> Option<Known> + 'a;

/// The edges of a call, with the places of their ends and what is there of them already.
pub(crate) struct Asked<'a> {
    edges: &'a [NewEdge],
    ends: Vec<(Option<usize>, Option<usize>)>,
    known: Vec<Option<Known>>,
}

impl<'a> Asked<'a> {
    pub fn new(nodes: &[Node<'_>], edges: &'a [NewEdge], existing: &mut Existing<'_>) -> Self {
        let places: BTreeMap<&Text, usize> = nodes.iter().enumerate().map(|(at, node)| (&node.key, at)).collect();
        let place = |key: &Text| places.get(key).copied();
        let ends: Vec<_> = edges.iter().map(|edge| (place(&edge.from), place(&edge.to))).collect();
        let mut known = |edge: &NewEdge, (from, to): (Option<usize>, Option<usize>)| {
            let (from, to) = from.zip(to)?;
            let group = nodes[to].groups.iter().position(|group| group.name == edge.group)?;
            existing(from, to, group as u8)
        };
        let known = edges.iter().zip(&ends).map(|(edge, ends)| known(edge, *ends)).collect();
        Self { edges, ends, known }
    }

    /// How many of them are not there yet.
    pub fn added(&self) -> u64 {
        self.known.iter().filter(|known| known.is_none()).count() as u64
    }

    /// Check 1 of a graph: how many edges and groups a member has.
    pub fn check_counts(&self, nodes: &[Node<'_>], limits: &Limits) -> Result<(), Rejection> {
        let mut degrees: Vec<(u32, u32)> = nodes.iter().map(|node| (node.ins, node.outs)).collect();
        let mut groups: BTreeSet<(usize, &Text)> = BTreeSet::new();
        for (at, node) in nodes.iter().enumerate() {
            groups.extend(node.groups.iter().map(|group| (at, &group.name)));
            groups.extend(node.declared.iter().map(|group| (at, &group.name)));
        }
        for ((edge, ends), known) in self.edges.iter().zip(&self.ends).zip(&self.known) {
            if let Some(to) = ends.1 {
                groups.insert((to, &edge.group));
            }
            if let ((Some(from), Some(to)), None) = (ends, known) {
                degrees[*to].0 += 1;
                degrees[*from].1 += 1;
            }
        }
        let mut counts = vec![0_u64; nodes.len()];
        groups.iter().for_each(|(at, _)| counts[*at] += 1);
        let mut problems = Problems::default();
        for (node, ((ins, outs), groups)) in nodes.iter().zip(degrees.into_iter().zip(counts)) {
            let edges = ("edges of one member", u64::from(limits.edges_per_member_max));
            let of_groups = ("groups", GROUPS_PER_MEMBER_MAX as u64, groups);
            for (what, limit, got) in [(edges.0, edges.1, ins.into()), (edges.0, edges.1, outs.into()), of_groups] {
                if got > limit {
                    problems.push(|| node.key.to_string(), Wrong::Limit { what, limit, got });
                }
            }
        }
        problems.done()
    }

    /// Checks 4 to 6 of a graph: ends, doubles and names, groups. Adds the edges to the groups of the nodes.
    pub fn link(&self, nodes: &mut [Node<'_>]) -> Result<Vec<Link>, Rejection> {
        let ends = self.check_ends()?;
        self.check_doubles(nodes, &ends)?;
        let mut problems = Problems::default();
        declare(nodes, &mut problems);
        self.join_groups(nodes, &ends, &mut problems)?;
        let links = self.join_edges(nodes, &ends);
        check_groups(nodes, self.edges, &mut problems);
        problems.done()?;
        Ok(links)
    }

    /// Whether the edge is there in all respects.
    fn existed(&self, at: usize) -> bool {
        let edge = &self.edges[at];
        self.known[at].as_ref().is_some_and(|(on, input)| (*on, input) == (edge.on, &edge.input))
    }

    fn check_ends(&self) -> Result<Vec<(usize, usize)>, Rejection> {
        let mut problems = Problems::default();
        let mut ends = Vec::with_capacity(self.edges.len());
        for (at, (edge, (from, to))) in self.edges.iter().zip(&self.ends).enumerate() {
            for (end, key, found) in [("from", &edge.from, from), ("to", &edge.to, to)] {
                if found.is_none() {
                    problems.push(|| format!("edges[{at}].{end}"), Wrong::UnknownNode { key: key.clone() });
                }
            }
            if edge.from == edge.to {
                problems.push(|| format!("edges[{at}]"), Wrong::SelfEdge { key: edge.from.clone() });
            }
            ends.extend(from.zip(*to));
        }
        problems.done()?;
        Ok(ends)
    }

    fn check_doubles(&self, nodes: &mut [Node<'_>], ends: &[(usize, usize)]) -> Result<(), Rejection> {
        let mut problems = Problems::default();
        let mut seen = BTreeSet::new();
        for (at, (edge, (from, to))) in self.edges.iter().zip(ends).enumerate() {
            if let Some(name) = &edge.input {
                check_printable("input", name, INPUT_NAME_MAX)?;
            }
            let existed = self.existed(at);
            if !seen.insert((*from, *to, &edge.group)) || (self.known[at].is_some() && !existed) {
                let (from, to) = (edge.from.clone(), edge.to.clone());
                let wrong = Wrong::DuplicateEdge { from, to, group: edge.group.clone() };
                problems.push(|| format!("edges[{at}]"), wrong);
            }
            let node = &mut nodes[*to];
            if let Some(name) = edge.input.as_ref().filter(|name| !existed && !name.ends_with("[]"))
                && !node.inputs.insert(name.clone())
            {
                let wrong = Wrong::DuplicateInput { key: node.key.clone(), name: name.clone() };
                problems.push(|| format!("edges[{at}].input"), wrong);
            }
        }
        problems.done()
    }

    /// Adds the groups that edges name, and compares the policies that they restate.
    fn join_groups(
        &self,
        nodes: &mut [Node<'_>],
        ends: &[(usize, usize)],
        problems: &mut Problems,
    ) -> Result<(), Rejection> {
        for (at, (edge, (_, to))) in self.edges.iter().zip(ends).enumerate() {
            check_printable("group", &edge.group, GROUP_NAME_MAX)?;
            let node = &mut nodes[*to];
            let known = node.groups.iter().any(|group| group.name == edge.group);
            let (policy, then) = match edge.policy {
                Some(given) => given,
                None if known => continue,
                None => (GroupPolicy::AllOf, Then::LetRun),
            };
            if !add_group(&mut node.groups, &NewGroup { name: edge.group.clone(), policy, then }) {
                let (key, group) = (node.key.clone(), edge.group.clone());
                problems.push(|| format!("edges[{at}].group"), Wrong::GroupConflict { key, group });
            }
        }
        Ok(())
    }

    /// Counts the edges into their groups. One that is there is not counted again.
    fn join_edges(&self, nodes: &mut [Node<'_>], ends: &[(usize, usize)]) -> Vec<Link> {
        let mut links = Vec::with_capacity(self.edges.len());
        for (at, (edge, (from, to))) in self.edges.iter().zip(ends).enumerate() {
            let place = nodes[*to].groups.iter().position(|group| group.name == edge.group);
            let group = place.expect("layout: groups of edges were joined") as u8;
            let existed = self.existed(at);
            if !existed {
                nodes[*to].groups[usize::from(group)].n += 1;
            }
            links.push(Link { from: *from, to: *to, group, on: edge.on, input: edge.input.clone(), existed });
        }
        links
    }
}

/// Adds the groups that members declare.
fn declare(nodes: &mut [Node<'_>], problems: &mut Problems) {
    for node in nodes {
        for (at, group) in node.declared.iter().enumerate() {
            let path = || format!("members[{}].groups[{at}]", node.path);
            if !add_group(&mut node.groups, group) {
                let (key, group) = (node.key.clone(), group.name.clone());
                problems.push(path, Wrong::GroupConflict { key, group });
            }
        }
    }
}

/// False if the group is there with another policy.
fn add_group(groups: &mut Vec<Group>, given: &NewGroup) -> bool {
    match groups.iter().find(|group| group.name == given.name) {
        Some(group) => (group.policy, group.then) == (given.policy, given.then),
        None => {
            groups.push(Group::new(given.name.clone(), given.policy, given.then));
            true
        }
    }
}

/// Groups that the call gives need edges and a policy that these can satisfy; of members that are not sealed more edges
/// may follow. What is wrong with a group that was there before is not this call's doing.
fn check_groups(nodes: &[Node<'_>], edges: &[NewEdge], problems: &mut Problems) {
    for node in nodes {
        // A group without edges is only kept for a member that is added with it.
        let must_have_edges = node.sealed || node.had.is_some();
        let known = node.had.as_ref().map_or(0, Vec::len);
        for (at, declared) in node.declared.iter().enumerate().filter(|_| must_have_edges) {
            let is_empty = |group: &Group| group.name == declared.name && group.n == 0;
            if node.groups.iter().skip(known).any(is_empty) {
                let (key, group) = (node.key.clone(), declared.name.clone());
                problems.push(|| format!("members[{}].groups[{at}]", node.path), Wrong::EmptyGroup { key, group });
            }
        }
        for (_, group) in node.groups.iter().enumerate().filter(|(at, _)| node.is_given(*at)) {
            let k = group.policy.needed(group.n);
            let is_short = node.sealed && group.n > 0 && k > group.n;
            if is_short || group.policy == GroupPolicy::Quorum(0) {
                let edge = || edges.iter().position(|edge| edge.to == node.key && edge.group == group.name);
                let path = || edge().map_or_else(|| node.key.to_string(), |at| format!("edges[{at}].group"));
                let (key, name) = (node.key.clone(), group.name.clone());
                problems.push(path, Wrong::QuorumUnreachable { key, group: name, k, n: group.n });
            }
        }
    }
}

/// For each node the length of the longest way that leads to it; the nodes of a cycle otherwise, in order.
pub(crate) fn levels(count: usize, links: &[Link]) -> Result<Vec<u64>, Vec<usize>> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut left = vec![0u32; count];
    for link in links {
        next[link.from].push(link.to);
        left[link.to] += 1;
    }
    let mut level = vec![0u64; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| left[*node] == 0).collect();
    let mut met = 0;
    while let Some(node) = ready.pop() {
        met += 1;
        for to in &next[node] {
            level[*to] = level[*to].max(level[node] + 1);
            left[*to] -= 1;
            if left[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    if met == count { Ok(level) } else { Err(cycle(&next, &left)) }
}

/// The cycle through the earliest node that is on one, and of those the shortest way around.
fn cycle(next: &[Vec<usize>], left: &[u32]) -> Vec<usize> {
    let components = components(next, left);
    let mut size = BTreeMap::new();
    components.iter().flatten().for_each(|of| *size.entry(*of).or_insert(0) += 1);
    let start = (0..next.len()).find(|node| components[*node].is_some_and(|of| size[&of] > 1));
    let start = start.expect("layout: nodes are left, so some are on a cycle");
    let mut came: BTreeMap<usize, usize> = BTreeMap::new();
    let mut level = vec![start];
    loop {
        let mut further = Vec::new();
        for node in &level {
            let mut to: Vec<usize> = next[*node].clone();
            to.sort_unstable();
            for to in to {
                if to == start {
                    let mut path = vec![start, *node];
                    while *path.last().expect("layout: a path has a start") != start {
                        path.push(came[path.last().expect("layout: a path has a start")]);
                    }
                    path.dedup();
                    path.reverse();
                    path.push(start);
                    path.dedup();
                    return path;
                }
                if components[to] == components[start] && !came.contains_key(&to) {
                    came.insert(to, *node);
                    further.push(to);
                }
            }
        }
        level = further;
    }
}

/// The strongly connected component of each node that is left, without recursion.
fn components(next: &[Vec<usize>], left: &[u32]) -> Vec<Option<usize>> {
    let count = next.len();
    let (mut order, mut low) = (vec![usize::MAX; count], vec![0; count]);
    let mut of: Vec<Option<usize>> = vec![None; count];
    let (mut counter, mut found) = (0, 0);
    let mut open: Vec<usize> = Vec::new();
    for start in (0..count).filter(|node| left[*node] > 0) {
        if order[start] != usize::MAX {
            continue;
        }
        let mut calls = vec![(start, 0)];
        while let Some((node, at)) = calls.pop() {
            if at == 0 {
                (order[node], low[node]) = (counter, counter);
                counter += 1;
                open.push(node);
            }
            let next_one = next[node].get(at).copied();
            if at > 0 {
                let done = next[node][at - 1];
                if of[done].is_none() && order[done] != usize::MAX {
                    low[node] = low[node].min(low[done]);
                }
            }
            match next_one {
                Some(to) if order[to] == usize::MAX => {
                    calls.push((node, at + 1));
                    calls.push((to, 0));
                }
                Some(to) => {
                    if of[to].is_none() {
                        low[node] = low[node].min(order[to]);
                    }
                    calls.push((node, at + 1));
                }
                None => {
                    if low[node] == order[node] {
                        while let Some(member) = open.pop() {
                            of[member] = Some(found);
                            if member == node {
                                break;
                            }
                        }
                        found += 1;
                    }
                }
            }
        }
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pairs: &[(usize, usize)]) -> Vec<Link> {
        let link = |(from, to): &(usize, usize)| Link {
            from: *from,
            to: *to,
            group: 0,
            on: On::Success,
            input: None,
            existed: false,
        };
        pairs.iter().map(link).collect()
    }

    #[test]
    fn fl_24_levels_grow_along_every_edge() {
        assert_eq!(levels(4, &links(&[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])), Ok(vec![0, 1, 1, 2]));
    }

    #[test]
    fn fl_42_the_cycle_is_the_one_through_the_earliest_member_whatever_the_order_of_edges() {
        let pairs = [(5, 6), (6, 5), (4, 1), (0, 1), (1, 2), (2, 3), (3, 1), (2, 4), (3, 5)];
        let mut turned = pairs.to_vec();
        for _ in 0..pairs.len() {
            turned.rotate_left(1);
            assert_eq!(levels(7, &links(&turned)), Err(vec![1, 2, 3, 1]));
        }
        assert_eq!(levels(2, &links(&[(1, 0), (0, 1)])), Err(vec![0, 1, 0]));
    }
}
