//! Every reason why a store is not opened, as a sentence for the person who starts it.

use crate::options::Address;
use weft_store::Level;

/// Why a store was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "cannot read `{url}`: {why}; a store is named `valkey://host:port` or `valkey-cluster://host:port,host:port`"
    )]
    Url { url: String, why: String },
    #[error("cannot use the prefix `{prefix}`: it has 1 to 32 characters out of a-z, 0-9, `_` and `:`")]
    Prefix { prefix: String },
    #[error("cannot open a store with {asked} partitions: there are at most {max}")]
    TooManyPartitions { asked: u16, max: u16 },
    #[error("cannot choose a database of a Cluster: it has database 0 only")]
    Database,
    #[error(
        "cannot connect to `{address}`: nothing would be encrypted on the way; use `valkeys://` (a Cluster: \
         `valkeys-cluster://`), or allow it with `plaintext=true`"
    )]
    Plaintext { address: Address },
    #[error("could not reach {servers}: {why}")]
    Unreachable { servers: String, why: String },
    #[error("cannot log in to `{address}`: {why}")]
    Login { address: Address, why: String },
    #[error("cannot run on {server} {found}: versions below 7.2 lack what a commit needs")]
    Version { server: &'static str, found: String },
    #[error("cannot open `{address}` with `valkey://`: it is a node of a Cluster; use `valkey-cluster://`")]
    IsCluster { address: Address },
    #[error("cannot open `{address}` with `valkey-cluster://`: it is not a node of a Cluster; use `valkey://`")]
    IsStandalone { address: Address },
    #[error("could not open the Cluster: {why}; `weft doctor` shows its state")]
    ClusterState { why: String },
    #[error("cannot write to `{address}`: it is a replica; name its primary")]
    Replica { address: Address },
    #[error("cannot use `{address}`: `maxmemory-policy` is `{policy}`, which deletes records; set it to `noeviction`")]
    Eviction { address: Address, policy: String },
    #[error(
        "cannot promise durability `{}` on `{address}`: {setting}; change it, ask for a lower `durability`, or accept \
         what can be lost with `accept_data_loss=true`", level.name()
    )]
    Weak { address: Address, level: Level, setting: String },
    #[error("cannot promise durability `{}` on `{address}`: it has {found} replicas and {needed} are needed", level.name())]
    Replicas { address: Address, level: Level, found: u32, needed: u32 },
    #[error("cannot open `{url}`: there is no store under this prefix; `weft migrate --store {url}` makes it")]
    Absent { url: String },
    #[error("cannot open `{url}` with {asked} partitions: it was made with {stored}, which cannot change")]
    Partitions { url: String, asked: u16, stored: u16 },
    #[error(
        "cannot open `{url}`: it has format {found} and this program writes {known}; run `weft migrate --store {url}`"
    )]
    Older { url: String, found: u64, known: u64 },
    #[error("cannot open `{url}`: it has format {found}, and this program knows up to {known}; use a newer one")]
    Newer { url: String, found: u64, known: u64 },
    #[error("cannot open `{url}`: the key `{key}` is not what Weft writes there ({why})")]
    Damaged { url: String, key: String, why: String },
    #[error(
        "cannot open `{address}`: its library `{library}` is not the one of this program; remove it with `FUNCTION DELETE {library}` when no other node uses it"
    )]
    Library { address: Address, library: &'static str },
    #[error("could not open the store on `{address}`: {why}")]
    Server { address: Address, why: String },
}
