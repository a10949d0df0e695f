//! What the handlers of a worker share.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

/// At most one value of each type.
#[derive(Default)]
pub struct States(BTreeMap<TypeId, Box<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn put<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}
