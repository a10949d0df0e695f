//! Under which of its upstreams each member stands, and who only names it.

use crate::link::Links;

/// A member on its line.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub node: usize,
    /// The link that it hangs on; roots have none.
    pub link: Option<usize>,
    pub depth: usize,
    /// Whether it is the last that hangs there.
    pub last: bool,
    /// The links to members that stand elsewhere.
    pub elsewhere: Vec<usize>,
}

/// Every member once, in depth from the roots: each stands under the upstream from which the walk first got there. The path
/// is a list, because a chain may be longer than a stack of calls.
pub fn walk(links: &Links) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(links.leaving.len());
    let mut walked = vec![false; links.leaving.len()];
    for root in &links.roots {
        walked[*root] = true;
        steps.push(Step { node: *root, link: None, depth: 0, last: true, elsewhere: Vec::new() });
        // The place of the member's step, how many of its links were followed, and the last step that hangs on it.
        let mut path: Vec<(usize, usize, Option<usize>)> = vec![(steps.len() - 1, 0, None)];
        while let Some((at, followed, hanging)) = path.last_mut() {
            let at = *at;
            let Some(link) = links.leaving[steps[at].node].get(*followed).copied() else {
                path.pop();
                continue;
            };
            *followed += 1;
            let to = links.all[link].to;
            if std::mem::replace(&mut walked[to], true) {
                steps[at].elsewhere.push(link);
                continue;
            }
            if let Some(before) = hanging.replace(steps.len()) {
                steps[before].last = false;
            }
            let depth = steps[at].depth + 1;
            path.push((steps.len(), 0, None));
            steps.push(Step { node: to, link: Some(link), depth, last: true, elsewhere: Vec::new() });
        }
    }
    steps
}
