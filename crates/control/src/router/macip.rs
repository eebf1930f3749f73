//! MAC-IP lists, and which interface has which: VPP's acl plugin in its other half.

use std::collections::BTreeMap;
use std::sync::Arc;

use parshall_acl::{MAX_RULES, Macip, MacipRule, MacipTables};

use super::Router;
use crate::error::{Error, Result};

/// Lists at most.
const MAX_LISTS: usize = 4096;
/// The nodes that judge by them.
const NODES: [&str; 3] = ["macip-in-l2", "macip-in-ip4", "macip-in-ip6"];

/// A MAC-IP list.
#[derive(Clone)]
pub struct MacipAcl {
    /// What its owner calls it.
    pub tag: String,
    /// Its rules, compiled.
    pub list: Arc<Macip>,
}

/// All MAC-IP lists.
#[derive(Default)]
pub(crate) struct MacipState {
    lists: BTreeMap<u32, MacipAcl>,
    /// By interface.
    interfaces: BTreeMap<u32, u32>,
}

impl Router {
    /// All MAC-IP lists by number.
    pub fn macip_acls(&self) -> impl Iterator<Item = (u32, &MacipAcl)> {
        self.macips.lists.iter().map(|(n, acl)| (*n, acl))
    }

    /// A MAC-IP list.
    ///
    /// # Errors
    /// When none has this number.
    pub fn macip_acl(&self, index: u32) -> Result<&MacipAcl> {
        let acl = self.macips.lists.get(&index);
        acl.ok_or_else(|| {
            Error::missing(format!(
                "no MAC-IP ACL {index}; `show acl-plugin macip acl` lists them"
            ))
        })
    }

    /// Interfaces that have a MAC-IP list, and its number.
    pub fn macip_interfaces(&self) -> impl Iterator<Item = (u32, u32)> {
        self.macips.interfaces.iter().map(|(i, n)| (*i, *n))
    }

    /// Gives list `index` these rules in place of those it has, or makes a list, and says its number.
    ///
    /// # Errors
    /// When there is no such list, or no room.
    pub fn macip_add_replace(
        &mut self,
        index: Option<u32>,
        tag: &str,
        rules: Vec<MacipRule>,
    ) -> Result<u32> {
        if rules.len() > MAX_RULES {
            return Err(Error::Full(format!(
                "a MAC-IP ACL has at most {MAX_RULES} rules"
            )));
        }
        let lists = &self.macips.lists;
        let index = match index {
            Some(index) => {
                self.macip_acl(index)?;
                index
            }
            None if lists.len() >= MAX_LISTS => {
                return Err(Error::Full(format!("there are {MAX_LISTS} MAC-IP ACLs")));
            }
            None => (0..).find(|n| !lists.contains_key(n)).unwrap_or(0),
        };
        let acl = MacipAcl {
            tag: tag.to_owned(),
            list: Arc::new(Macip::new(rules)),
        };
        self.put_macip(index, Some(acl));
        Ok(index)
    }

    fn put_macip(&mut self, index: u32, acl: Option<MacipAcl>) {
        let was = match acl {
            Some(acl) => self.macips.lists.insert(index, acl),
            None => self.macips.lists.remove(&index),
        };
        self.publish_macips();
        self.undo(move |r| {
            r.put_macip(index, was);
            Ok(())
        });
    }

    /// Deletes a list; interfaces that had it have none then, as in VPP.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn macip_del(&mut self, index: u32) -> Result<()> {
        self.macip_acl(index)?;
        let having = self.macip_interfaces().filter(|(_, n)| *n == index);
        let having: Vec<u32> = having.map(|(i, _)| i).collect();
        for interface in having {
            self.set_macip(interface, None)?;
        }
        self.put_macip(index, None);
        Ok(())
    }

    /// Gives an interface a list in place of the one it has, or takes it off.
    ///
    /// # Errors
    /// When there is no such interface or list.
    pub fn set_macip(&mut self, if_index: u32, index: Option<u32>) -> Result<()> {
        if let Some(index) = index {
            self.macip_acl(index)?;
        }
        let was = self.macips.interfaces.get(&if_index).copied();
        if was == index {
            return Ok(());
        }
        match index {
            Some(index) => self.macips.interfaces.insert(if_index, index),
            None => self.macips.interfaces.remove(&if_index),
        };
        self.publish_macips();
        for node in NODES {
            let on = index.is_some();
            self.engine.graph.set_feature(node, if_index, on)?;
        }
        self.undo(move |r| r.set_macip(if_index, was));
        Ok(())
    }

    /// Shows workers the lists of all interfaces.
    fn publish_macips(&mut self) {
        let last = self.macips.interfaces.keys().next_back();
        let mut tables = MacipTables::default();
        tables
            .input
            .resize(last.map_or(0, |n| *n as usize + 1), None);
        for (interface, index) in &self.macips.interfaces {
            let list = self.macips.lists.get(index);
            tables.input[*interface as usize] = list.map(|acl| acl.list.clone());
        }
        let shared = &self.engine.shared;
        shared.macips.publish(&shared.domain, tables);
    }
}
