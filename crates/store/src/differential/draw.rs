//! Random names and values. There are few of each, so that calls meet each other.

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use uuid::Uuid;
use weft_core::record::Key;
use weft_core::record::bulk_job::Role;
use weft_core::record::continuation::Work;
use weft_core::record::register::Subject;
use weft_core::schema::{Kind, PartMask, Type, Value};
use weft_core::{CommitId, ExecutionId, FlowId, PartitionId};

const TEXTS: [&str; 9] = ["", "a", "A", "a\u{1}", "aa", "b", "é", "ready", "日"];
const INTS: [i64; 8] = [i64::MIN, -7, -1, 0, 1, 9, 1 << 53, i64::MAX];
const BYTES: [&[u8]; 7] = [b"", b"\0", b"\0\xff", b"a", b"a\0", b"b", b"\xff"];

pub(super) struct Draw {
    random: ChaCha8Rng,
    minted: u64,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), minted: 0 }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// An id that was never drawn before; ids do not come in order.
    pub fn commit_id(&mut self) -> CommitId {
        self.minted += 1;
        CommitId(Uuid::from_u64_pair(self.random.next_u64(), self.minted))
    }

    pub fn key(&mut self, partition: PartitionId) -> Key {
        let uuid = Uuid::from_u64_pair(self.below(2) as u64 * u64::MAX, self.below(4) as u64);
        let id = ExecutionId::new(partition, uuid);
        match self.below(15) {
            0..4 => Key::Execution(id),
            4 => Key::Attempt(id, self.below(3) as u32),
            5 => Key::Dedup(partition, [[0, 1, b'{', 0xff][self.below(4)]; 32]),
            6 => Key::Continuation(id, Work::ALL[self.below(Work::ALL.len())]),
            7 => Key::Step(id, self.below(3) as u32),
            8 => Key::Worker(partition, [[0, 1, b'{', 0xff][self.below(4)]; 32]),
            9 => Key::BulkJob(partition, uuid, Role::ALL[self.below(Role::ALL.len())]),
            10 => match self.below(3) {
                0 => Key::ApiKey(partition, ["00000000", "zzzzZZZZ"][self.below(2)].parse().expect("an id of a key")),
                1 => Key::Audit(partition, self.below(3) as u64),
                _ => Key::Register(partition, Subject::ALL[self.below(Subject::ALL.len())]),
            },
            11 => match self.below(2) {
                0 => Key::DeadLetter(partition, uuid),
                _ => Key::Node(partition, uuid),
            },
            12 => Key::Flow(FlowId::new(partition, uuid)),
            13 => Key::Edge(id, self.below(3) as u32),
            _ => Key::Tombstone(id),
        }
    }

    pub fn facets(&mut self, kind: Kind) -> Vec<Value> {
        let table = kind.table();
        let drawn = table.facets.iter().map(|facet| match facet.nullable && self.chance(40) {
            true => Value::Null,
            false => self.value(facet.ty),
        });
        let mut facets: Vec<Value> = drawn.collect();
        for index in table.indexes {
            let is_in = index.when.is_some_and(|when| !facets[when].is_null());
            for at in index.facets.iter().filter(|_| is_in) {
                if facets[*at].is_null() {
                    facets[*at] = self.value(table.facets[*at].ty);
                }
            }
        }
        facets
    }

    pub fn value(&mut self, ty: Type) -> Value {
        match ty {
            Type::Int => Value::Int(INTS[self.below(INTS.len())]),
            Type::Text => Value::Text(TEXTS[self.below(TEXTS.len())].into()),
            Type::Bytes => Value::bytes(BYTES[self.below(BYTES.len())]),
        }
    }

    /// Some parts of a kind, each set, emptied or removed.
    pub fn parts(&mut self, kind: Kind) -> Vec<(u8, Option<Bytes>)> {
        let numbers = 0..kind.table().parts.len() as u8;
        let named: Vec<u8> = numbers.filter(|_| self.chance(50)).collect();
        named.into_iter().map(|part| (part, (!self.chance(25)).then(|| self.blob()))).collect()
    }

    pub fn mask(&mut self) -> PartMask {
        if self.chance(40) { PartMask::ALL } else { PartMask(self.below(1 << 10) as u16) }
    }

    /// Up to forty bytes of any value.
    pub fn blob(&mut self) -> Bytes {
        let mut bytes = vec![0; self.below(40)];
        self.random.fill_bytes(&mut bytes);
        Bytes::from(bytes)
    }
}
