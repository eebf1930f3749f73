//! What a collector suffers from, and how it is told: each kind once for as long as the trouble lasts, however often it is
//! tried again, and once that it is over.

use super::socket::Trouble;
use crate::status::Loss;

/// Time without an error after which a trouble is over, beside twice the last pause: longer than the kernel takes to give a
/// silent neighbour up.
const CALM: u64 = 10 * 1_000_000_000;

/// The troubles of one collector.
#[derive(Default)]
pub struct Troubles {
    /// Kinds that were told since all was well.
    told: Vec<Loss>,
    /// What is wrong now.
    now: Option<Loss>,
    /// When something went wrong last, and what.
    last: Option<(u64, String)>,
    /// Datagrams lost before the present trouble.
    lost_before: u64,
}

impl Troubles {
    /// Something went wrong. Tells of it if it is news. `lost` is the number of datagrams lost so far.
    pub fn note(&mut self, now: u64, collector: &dyn std::fmt::Display, lost: u64, t: &Trouble) {
        if self.told.is_empty() {
            self.lost_before = lost;
        }
        if self.told.contains(&t.loss) {
            tracing::debug!("collector {collector}: {}", t.text);
        } else {
            self.told.push(t.loss);
            tracing::warn!("collector {collector}: {}", t.text);
        }
        self.now = Some(t.loss);
        self.last = Some((now, t.text.clone()));
    }

    /// All went well at `now`; `pause` is the last pause made. Says whether the trouble is over, and tells so.
    pub fn calm(
        &mut self,
        now: u64,
        pause: u64,
        collector: &dyn std::fmt::Display,
        lost: u64,
    ) -> bool {
        if self.now.is_none() {
            return true;
        }
        let since = self.last.as_ref().map_or(0, |(at, _)| *at);
        if now.saturating_sub(since) <= 2 * pause + CALM {
            return false;
        }
        let lost = lost.saturating_sub(self.lost_before);
        tracing::info!("collector {collector}: well again; {lost} datagrams were lost");
        self.told.clear();
        self.now = None;
        true
    }

    /// What is wrong now.
    pub fn now(&self) -> Option<Loss> {
        self.now
    }

    /// When something went wrong last, and what.
    pub fn last(&self) -> Option<&(u64, String)> {
        self.last.as_ref()
    }
}
