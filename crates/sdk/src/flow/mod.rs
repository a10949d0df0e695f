//! The parts of a graph before it is sent: members, the groups in which their edges are judged, edges. A client makes
//! flows of them, and a member that runs adds them to its own. Whether a graph is one is for the server to say.

mod edge;
mod group;
mod member;

pub use edge::Edge;
pub use group::{Group, Undecided};
pub use member::{Member, Node};

use crate::Error;
use weft_api::flow::{NewEdge, NewMember};

/// Members and edges that belong to one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    members: Vec<Member>,
    edges: Vec<Edge>,
}

impl Draft {
    pub fn member(&mut self, member: Member) {
        self.members.push(member);
    }

    pub fn edge(&mut self, edge: Edge) {
        self.edges.push(edge);
    }

    /// What is sent, unless an input cannot be.
    pub fn parts(self) -> Result<(Vec<NewMember>, Vec<NewEdge>), Error> {
        let members = self.members.into_iter().map(Member::into_request).collect::<Result<_, _>>()?;
        Ok((members, self.edges.into_iter().map(Edge::into_request).collect()))
    }
}
