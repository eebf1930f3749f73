//! Path attributes, each kept once however many routes have them.
//!
//! A table of a million routes has about a fifth as many different attributes.

use std::collections::HashMap;
use std::sync::Arc;

use parshall_bgp::PathAttributes;

/// Bytes that keeping attributes takes beside them: their place, the two counts of the `Arc`, the index.
const OVERHEAD: usize = 64;

/// Number of a set of attributes.
pub(super) type SetId = u32;

/// The attributes of all routes.
#[derive(Default)]
pub(super) struct Sets {
    by_value: HashMap<Arc<PathAttributes>, SetId>,
    places: Vec<Option<Place>>,
    free: Vec<SetId>,
    bytes: usize,
}

struct Place {
    set: Arc<PathAttributes>,
    routes: u32,
}

impl Sets {
    /// The number of these attributes, counting one more route that has them.
    pub fn take(&mut self, path: &PathAttributes) -> SetId {
        if let Some(&id) = self.by_value.get(path) {
            if let Some(Some(place)) = self.places.get_mut(id as usize) {
                place.routes += 1;
            }
            return id;
        }
        let set = Arc::new(path.clone());
        self.bytes += path.memory() + OVERHEAD;
        let place = Some(Place {
            set: Arc::clone(&set),
            routes: 1,
        });
        let id = match self.free.pop() {
            Some(id) => {
                self.places[id as usize] = place;
                id
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as SetId
            }
        };
        self.by_value.insert(set, id);
        id
    }

    /// One route less has them; the last one takes them along.
    pub fn release(&mut self, id: SetId) {
        let Some(at) = self.places.get_mut(id as usize) else {
            return;
        };
        let Some(place) = at else { return };
        place.routes -= 1;
        if place.routes == 0 {
            self.bytes -= place.set.memory() + OVERHEAD;
            self.by_value.remove(&place.set);
            *at = None;
            self.free.push(id);
        }
    }

    /// The attributes of this number.
    pub fn get(&self, id: SetId) -> Option<&Arc<PathAttributes>> {
        self.places.get(id as usize)?.as_ref().map(|p| &p.set)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_value.len()
    }

    /// Bytes they take.
    pub fn memory(&self) -> usize {
        self.bytes
    }
}
