//! BGP feeds, and which records samples carry.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use parshall_agent::RecordKind;

use super::Builder;
use crate::plan::word;
use crate::record::{Checked, Item, Record};

impl Builder<'_, '_> {
    /// Commands for feeds.
    pub(super) fn bgp(&mut self) {
        let Some(r) = self.file.record("bgp") else {
            return;
        };
        for field in ["local-as", "memory-limit"] {
            if let Some(n) = r.get(field).and_then(|i| i.value.uint()) {
                self.line(r, field, format!("bgp {field} {n}"));
            }
        }
        let mut seen = BTreeSet::new();
        for (field, kind) in [("files", "file"), ("mrt", "mrt")] {
            for item in r.list(field) {
                if let Some(path) = item.value.text() {
                    let feed = format!("{kind} {}", word(path));
                    self.feed(item, feed, &mut seen);
                }
            }
        }
        for item in r.list("bmp") {
            let Checked::Record(station) = &item.value else {
                continue;
            };
            let port = station.uint("port").and_then(|p| u16::try_from(p).ok());
            if let (Some(address), Some(port)) = (station.address("address"), port) {
                let at = SocketAddr::new(address, port);
                self.feed(item, format!("bmp listen {at}"), &mut seen);
            }
        }
    }

    fn feed(&mut self, item: &Item, feed: String, seen: &mut BTreeSet<String>) {
        if !seen.insert(feed.clone()) {
            let message = format!("feed {feed} is listed twice");
            self.report.add(item.at, item.field.clone(), message);
        }
        self.lines.push(crate::plan::PlanLine {
            line: format!("bgp feed {feed}"),
            at: item.at,
            field: item.field.clone(),
        });
    }

    /// Commands for the records of samples.
    pub(super) fn records(&mut self, sflow: &Record) {
        let Some(r) = sflow.record("records") else {
            return;
        };
        for name in RecordKind::ALL.iter().map(|k| k.name()) {
            if let Some(Checked::Bool(on)) = r.get(name).map(|i| &i.value) {
                let how = if *on { "on" } else { "off" };
                self.line(r, name, format!("sflow records {name} {how}"));
            }
        }
    }
}
