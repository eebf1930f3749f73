//! BGP feeds and the table they fill: for telemetry alone, nothing is forwarded by it.

use std::sync::Arc;

use super::Router;
use crate::bgp::{Bgp, FeedSpec, FeedState};
use crate::error::{Error, Result};
use crate::telemetry::View;

impl Router {
    /// The router as the agent sees it.
    pub fn view(&self) -> Arc<View> {
        self.sflow.view.clone()
    }

    /// The feeds and their table.
    pub fn bgp(&self) -> &Bgp {
        &self.bgp
    }

    /// Starts a feed, or reads its file again.
    ///
    /// # Errors
    /// When the file cannot be opened or is being read, or the address cannot be listened at.
    pub fn add_bgp_feed(&mut self, spec: &FeedSpec) -> Result<()> {
        let had = self.bgp.has(spec);
        self.bgp
            .add(spec, self.is_model())
            .map_err(Error::refused)?;
        if !had {
            let spec = spec.clone();
            self.undo(move |r| {
                r.bgp.remove(&spec);
                Ok(())
            });
        }
        Ok(())
    }

    /// Ends a feed and takes its routes out.
    ///
    /// # Errors
    /// When there is no such feed.
    pub fn remove_bgp_feed(&mut self, spec: &FeedSpec) -> Result<()> {
        if !self.bgp.remove(spec) {
            return Err(Error::refused(format!(
                "there is no feed {spec}; `show bgp feed` lists them"
            )));
        }
        let spec = spec.clone();
        self.undo(move |r| r.add_bgp_feed(&spec));
        Ok(())
    }

    /// Sets the router's own AS, as samples tell it; 0 = not known.
    pub fn set_local_as(&mut self, asn: u32) {
        let was = self.bgp.shared.local_as();
        self.bgp.shared.set_local_as(asn);
        self.undo(move |r| {
            r.set_local_as(was);
            Ok(())
        });
    }

    /// Sets how much memory BGP routes may take, in bytes.
    pub fn set_bgp_limit(&mut self, bytes: usize) {
        let was = self.bgp.shared.table().size().limit;
        self.bgp.shared.set_limit(bytes);
        self.undo(move |r| {
            r.set_bgp_limit(was);
            Ok(())
        });
    }

    /// Whether a file is being read just now.
    pub fn bgp_is_loading(&self) -> bool {
        let loading = |f: &crate::bgp::Feed| f.status().state == FeedState::Loading;
        self.bgp.feeds().iter().any(loading)
    }
}
