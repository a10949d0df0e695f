//! The cluster in the eyes of one node: who serves which slots and who replicates whom.

use super::Cluster;
use crate::error::Result;
use crate::valkey::Valkey;
use std::collections::BTreeMap;

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// Nodes by their index; a node that is not one of the cluster's is left out.
#[derive(Debug)]
pub struct View {
    /// From the primary to the ranges it serves, both ends included. A primary without slots has none.
    owners: BTreeMap<usize, Vec<(u16, u16)>>,
    /// From the replica to its primary.
    replicas: BTreeMap<usize, usize>,
}

impl View {
    pub fn of(cluster: &Cluster, index: usize) -> Result<View> {
        let ports: Vec<u16> = cluster.nodes().iter().map(|node| node.addr().port()).collect();
        let text = cluster.node(index).command(&["CLUSTER", "NODES"])?.text().unwrap_or_default();
        Ok(View::read(&text, &ports))
    }

    fn read(text: &str, ports: &[u16]) -> View {
        let rows: Vec<Row<'_>> = text.lines().filter_map(|line| Row::read(line, ports)).collect();
        let index_of = |id: &str| rows.iter().find(|row| row.id == id).map(|row| row.index);
        let mut view = View { owners: BTreeMap::new(), replicas: BTreeMap::new() };
        for row in &rows {
            if row.primary {
                view.owners.insert(row.index, row.slots.clone());
            } else if let Some(primary) = index_of(row.follows) {
                view.replicas.insert(row.index, primary);
            }
        }
        view
    }

    /// Those that serve slots.
    pub fn primaries(&self) -> impl Iterator<Item = usize> {
        self.owners.iter().filter(|(_, slots)| !slots.is_empty()).map(|(index, _)| *index)
    }

    pub fn is_primary(&self, index: usize) -> bool {
        self.primaries().any(|primary| primary == index)
    }

    pub fn primary_of_slot(&self, slot: u16) -> Option<usize> {
        let serves = |ranges: &[(u16, u16)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot));
        self.owners.iter().find(|(_, ranges)| serves(ranges)).map(|(index, _)| *index)
    }

    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        self.replicas.iter().filter(|(_, follows)| **follows == primary).map(|(index, _)| *index).collect()
    }

    pub fn same_owners(&self, other: &View) -> bool {
        let serving = |view: &View| -> Vec<(usize, Vec<(u16, u16)>)> {
            let serving = view.owners.iter().filter(|(_, slots)| !slots.is_empty());
            serving.map(|(index, slots)| (*index, slots.clone())).collect()
        };
        serving(self) == serving(other)
    }
}

/// One line of `CLUSTER NODES`.
struct Row<'a> {
    id: &'a str,
    index: usize,
    primary: bool,
    follows: &'a str,
    slots: Vec<(u16, u16)>,
}

impl Row<'_> {
    fn read<'a>(line: &'a str, ports: &[u16]) -> Option<Row<'a>> {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, addr, flags, follows, _, _, _, _, slots @ ..] = words.as_slice() else { return None };
        let port: u16 = addr.split(['@', ',']).next()?.rsplit(':').next()?.parse().ok()?;
        let index = ports.iter().position(|known| *known == port)?;
        let primary = flags.split(',').any(|flag| flag == "master");
        // A slot that is being moved is in brackets and also in a range.
        let slots = slots.iter().filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        Some(Row { id, index, primary, follows, slots: slots.collect() })
    }
}

/// Whether the node sees all slots served.
pub fn state_ok(node: &Valkey) -> Result<std::result::Result<(), String>> {
    let info = node.command(&["CLUSTER", "INFO"])?.text().unwrap_or_default();
    let ok = info.lines().any(|line| line.trim() == "cluster_state:ok");
    Ok(if ok { Ok(()) } else { Err(format!("{} does not see all slots served", node.addr())) })
}

/// Whether the node, if it is a replica, follows its primary without a gap.
pub fn in_step(node: &Valkey) -> Result<std::result::Result<(), String>> {
    let info = node.command(&["INFO", "replication"])?.text().unwrap_or_default();
    let says = |what: &str| info.lines().any(|line| line.trim() == what);
    let fine = says("role:master") || says("master_link_status:up");
    Ok(if fine { Ok(()) } else { Err(format!("{} is not in step with its primary", node.addr())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_nodes_is_read_by_port() {
        let text = "\
aa 127.0.0.1:11@10011 myself,master - 0 0 1 connected 0-99 101 [102->-bb]\n\
bb 127.0.0.1:12@10012,host master,fail - 0 0 2 disconnected 100 102-16383\n\
cc 127.0.0.1:13@10013 slave bb 0 0 2 connected\n\
dd 127.0.0.1:14@10014 master - 0 0 4 connected\n\
ee 127.0.0.1:99@10099 slave aa 0 0 1 connected\n";
        let view = View::read(text, &[11, 12, 13, 14]);
        let owners = [50, 100, 101, 102, 16_383].map(|slot| view.primary_of_slot(slot));
        assert_eq!(owners, [Some(0), Some(1), Some(0), Some(1), Some(1)]);
        assert_eq!(view.primaries().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(view.replicas_of(1), [2]);
        assert_eq!(view.replicas_of(0), [0; 0]);
    }
}
