//! Counted lists in records.

use core::fmt;
use core::marker::PhantomData;

use super::field::{Field, Show};
use crate::xdr::{Reader, Result, put_u32};

/// A counted list: given as a slice to send, or lying in the received bytes and decoded while it is walked.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Items<'a, T>);

#[derive(Clone, Copy)]
enum Items<'a, T> {
    Given(&'a [T]),
    /// Bytes that hold exactly `count` items; that they do was checked when the list was read.
    Wire {
        bytes: &'a [u8],
        count: usize,
    },
}

impl<'a, T: Field<'a>> List<'a, T> {
    /// A list of these items.
    pub const fn new(items: &'a [T]) -> Self {
        List(Items::Given(items))
    }

    /// Number of items.
    pub const fn len(&self) -> usize {
        match self.0 {
            Items::Given(s) => s.len(),
            Items::Wire { count, .. } => count,
        }
    }

    /// Says whether there is no item.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Walks the items.
    pub fn iter(&self) -> ListIter<'a, T> {
        let reader = match self.0 {
            Items::Given(_) => Reader::new(&[]),
            Items::Wire { bytes, .. } => Reader::new(bytes),
        };
        ListIter {
            items: self.0,
            at: 0,
            reader,
            _t: PhantomData,
        }
    }
}

impl<'a, T: Field<'a>> Default for List<'a, T> {
    fn default() -> Self {
        List(Items::Given(&[]))
    }
}

/// Walks a [`List`].
pub struct ListIter<'a, T> {
    items: Items<'a, T>,
    at: usize,
    reader: Reader<'a>,
    _t: PhantomData<T>,
}

impl<'a, T: Field<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = match self.items {
            Items::Given(s) => s.get(self.at).copied(),
            Items::Wire { count, .. } if self.at < count => T::read(&mut self.reader).ok(),
            Items::Wire { .. } => None,
        };
        self.at += usize::from(item.is_some());
        item
    }
}

impl<'a, T: Field<'a>> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Field<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Field<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Field<'a>> Field<'a> for List<'a, T> {
    const MIN: usize = 4;
    const SHOW: Show = Show::Special;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        let count = r.count(T::MIN)?;
        let start = *r;
        for _ in 0..count {
            T::read(r)?;
        }
        let used = start.left() - r.left();
        let bytes = start.rest().get(..used).unwrap_or(&[]);
        Ok(List(Items::Wire { bytes, count }))
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u32(out, u32::try_from(self.len()).unwrap_or(u32::MAX));
        for item in self {
            item.write(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_list_equals_the_one_read_back() {
        let given = List::new(&[1u32, 2, 3]);
        let mut out = Vec::new();
        given.write(&mut out);
        assert_eq!(out.len(), 16);
        let mut r = Reader::new(&out);
        let read = List::<u32>::read(&mut r).unwrap();
        assert_eq!((read, r.left()), (given, 0));
        assert_eq!(format!("{read:?}"), "[1, 2, 3]");
        assert!(List::<u32>::default().is_empty());
    }

    #[test]
    fn a_count_beyond_the_bytes_is_refused_before_it_is_walked() {
        let mut r = Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1]);
        assert!(List::<u32>::read(&mut r).is_err());
    }
}
