//! Access lists, and which interfaces they hold on.
//!
//! Lists have numbers, as in VPP's acl plugin. What the lists of an interface make together is compiled here and
//! published as a whole: workers judge a packet by the old rules or by the new ones. Compiled rules are shared by
//! interfaces with the same lists.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parshall_acl::{AclList, AclTables, Compiled, Entry, Hits, MAX_RULES, Rule};

use super::Router;
use crate::error::{Error, Result};
use crate::telemetry::AclNames;

/// Access lists at most.
const MAX_LISTS: usize = 4096;
/// Lists of an interface at most, both directions together: what VPP's API can tell of.
const MAX_PER_INTERFACE: usize = 255;
/// Bytes of a tag at most.
const TAG_MAX: usize = 63;

/// An access list.
#[derive(Clone)]
pub struct Acl {
    tag: String,
    /// Tells its rules from others it had before.
    revision: u64,
    list: AclList,
}

impl Acl {
    /// What its owner calls it.
    pub fn tag(&self) -> &str {
        &self.tag
    }
    /// Its rules in order.
    pub fn rules(&self) -> &[Rule] {
        &self.list.rules
    }
    /// Tells its rules from those it had before.
    pub fn revision(&self) -> u64 {
        self.revision
    }
    /// Packets and bytes that rule `rule` has decided in a worker since the list has these rules.
    pub fn hits_of(&self, worker: usize, rule: usize) -> (u64, u64) {
        self.list.hits.of_worker(worker, rule)
    }
    /// Packets and bytes that rule `rule` has decided since the list has these rules.
    pub fn hits(&self, rule: usize) -> (u64, u64) {
        self.list.hits.get(rule)
    }
}

/// The lists of an interface, in the order they are asked.
#[derive(Clone)]
pub struct InterfaceAcls {
    /// For what comes in.
    pub input: Vec<u32>,
    /// For what goes out.
    pub output: Vec<u32>,
    /// What no rule matched, by direction.
    unmatched: [Arc<Hits>; 2],
}

impl InterfaceAcls {
    /// Packets and bytes that matched no rule: on the way in, or out.
    pub fn unmatched(&self, out: bool) -> (u64, u64) {
        self.unmatched[usize::from(out)].get(0)
    }
}

/// Numbers and revisions of lists: what was compiled from them.
type Sources = Vec<(u32, u64)>;

/// All access lists.
pub struct AclState {
    lists: BTreeMap<u32, Acl>,
    interfaces: BTreeMap<u32, InterfaceAcls>,
    /// Fragments beyond the first match rules whatever these say of ports.
    later: bool,
    revisions: u64,
    compiled: HashMap<Sources, Arc<Compiled>>,
}

impl Default for AclState {
    fn default() -> Self {
        AclState {
            lists: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            later: true,
            revisions: 0,
            compiled: HashMap::new(),
        }
    }
}

impl AclState {
    /// All lists by number.
    pub fn lists(&self) -> impl Iterator<Item = (u32, &Acl)> {
        self.lists.iter().map(|(n, acl)| (*n, acl))
    }
    /// Numbers and names of an interface's lists: of the way in, and of the way out.
    pub(super) fn names(&self, if_index: u32) -> AclNames {
        let Some(lists) = self.interfaces.get(&if_index) else {
            return AclNames::default();
        };
        let name = |n: &u32| (*n, self.lists.get(n).map_or("", |a| &a.tag).to_owned());
        [&lists.input, &lists.output].map(|l| l.iter().map(name).collect())
    }
}

impl Router {
    /// All access lists by number.
    pub fn acls(&self) -> impl Iterator<Item = (u32, &Acl)> {
        self.acls.lists()
    }
    /// An access list.
    ///
    /// # Errors
    /// When none has this number.
    pub fn acl(&self, index: u32) -> Result<&Acl> {
        let acl = self.acls.lists.get(&index);
        acl.ok_or_else(|| {
            Error::missing(format!("no ACL {index}; `show acl-plugin acl` lists them"))
        })
    }
    /// Interfaces that have lists, by number.
    pub fn acl_interfaces(&self) -> impl Iterator<Item = (u32, &InterfaceAcls)> {
        self.acls.interfaces.iter().map(|(n, lists)| (*n, lists))
    }
    /// Whether fragments beyond the first match rules by addresses and protocol alone.
    pub fn acl_matches_later_fragments(&self) -> bool {
        self.acls.later
    }

    /// Gives list `index` these rules in place of those it has, or makes a list, and says its number. Counters
    /// of its rules start at zero.
    ///
    /// # Errors
    /// When a rule cannot be, there is no such list, or no room.
    pub fn acl_add_replace(
        &mut self,
        index: Option<u32>,
        tag: &str,
        rules: Vec<Rule>,
    ) -> Result<u32> {
        match index {
            Some(index) => {
                self.acl(index)?;
                self.acl_set(index, tag, rules)
            }
            None => {
                let free = (0..).find(|n| !self.acls.lists.contains_key(n));
                self.acl_set(free.unwrap_or(u32::MAX), tag, rules)
            }
        }
    }

    /// The same for a number that need not have a list yet.
    ///
    /// # Errors
    /// When a rule cannot be, or there is no room.
    pub fn acl_set(&mut self, index: u32, tag: &str, rules: Vec<Rule>) -> Result<u32> {
        for (i, rule) in rules.iter().enumerate() {
            let named = |e: parshall_acl::BadRule| Error::refused(format!("rule {i}: {e}"));
            rule.check().map_err(named)?;
        }
        if tag.len() > TAG_MAX {
            return Err(Error::refused(format!(
                "a tag has at most {TAG_MAX} bytes, not {}",
                tag.len()
            )));
        }
        if index == u32::MAX
            || self.acls.lists.len() >= MAX_LISTS && !self.acls.lists.contains_key(&index)
        {
            return Err(Error::Full(format!("there are {MAX_LISTS} ACLs already")));
        }
        self.check_room(index, rules.len())?;
        self.acls.revisions += 1;
        let hits = Hits::new(self.engine.workers(), rules.len());
        let acl = Acl {
            tag: tag.to_owned(),
            revision: self.acls.revisions,
            list: AclList {
                rules: rules.into(),
                hits: Arc::new(hits),
            },
        };
        let was = self.acls.lists.insert(index, acl);
        self.publish_acls()?;
        self.undo(move |r| r.put_acl(index, was));
        Ok(index)
    }

    /// Refuses more rules than can be compiled together, were list `index` to have `rules`.
    fn check_room(&self, index: u32, rules: usize) -> Result<()> {
        let size = |n: &u32| match self.acls.lists.get(n) {
            _ if *n == index => rules,
            Some(acl) => acl.list.rules.len(),
            None => 0,
        };
        let together = |on: &InterfaceAcls| {
            let [a, b] = [&on.input, &on.output].map(|l| l.iter().map(size).sum::<usize>());
            a.max(b)
        };
        let most = self.acls.interfaces.values().map(together).max();
        if rules.max(most.unwrap_or(0)) > MAX_RULES {
            return Err(Error::Full(format!(
                "the ACLs of an interface have at most {MAX_RULES} rules in each direction"
            )));
        }
        Ok(())
    }

    fn put_acl(&mut self, index: u32, acl: Option<Acl>) -> Result<()> {
        match acl {
            Some(acl) => self.acls.lists.insert(index, acl),
            None => self.acls.lists.remove(&index),
        };
        self.publish_acls()
    }

    /// Deletes a list.
    ///
    /// # Errors
    /// When there is none of this number, or an interface has it.
    pub fn acl_del(&mut self, index: u32) -> Result<()> {
        self.acl(index)?;
        let uses = |(n, on): (&u32, &InterfaceAcls)| {
            let way = match (on.input.contains(&index), on.output.contains(&index)) {
                (true, _) => "input",
                (_, true) => "output",
                _ => return None,
            };
            Some(format!("{way} of {}", self.interfaces.name(*n)))
        };
        if let Some(user) = self.acls.interfaces.iter().find_map(uses) {
            return Err(Error::in_use(format!(
                "ACL {index} is in use: {user}; take it off there first"
            )));
        }
        let was = self.acls.lists.remove(&index);
        self.undo(move |r| r.put_acl(index, was));
        Ok(())
    }

    /// Gives an interface these lists in place of those it has, in the order they are asked. Without any, a
    /// direction is not filtered.
    ///
    /// # Errors
    /// When there is no such interface or list, or too many, or one twice.
    pub fn acl_interface_set_acl_list(
        &mut self,
        if_index: u32,
        input: Vec<u32>,
        output: Vec<u32>,
    ) -> Result<()> {
        if if_index == 0 || self.interfaces.get(if_index).is_none() {
            return Err(Error::refused(format!(
                "no interface {if_index} that could have ACLs"
            )));
        }
        let was = self.acls.interfaces.get(&if_index).cloned();
        let old = was.as_ref().map(|w| (&w.input, &w.output));
        if old.map_or(input.is_empty() && output.is_empty(), |o| {
            o == (&input, &output)
        }) {
            return Ok(());
        }
        for list in [&input, &output] {
            self.check_list(list)?;
        }
        if input.len() + output.len() > MAX_PER_INTERFACE {
            return Err(Error::Full(format!(
                "an interface has at most {MAX_PER_INTERFACE} ACLs"
            )));
        }
        let none = || Arc::new(Hits::new(self.engine.workers(), 1));
        let lists = InterfaceAcls {
            input,
            output,
            unmatched: match &was {
                Some(w) => w.unmatched.clone(),
                None => [none(), none()],
            },
        };
        self.put_interface_acls(if_index, Some(lists))?;
        self.undo(move |r| r.put_interface_acls(if_index, was));
        Ok(())
    }

    fn check_list(&self, list: &[u32]) -> Result<()> {
        let mut rules = 0;
        for (i, index) in list.iter().enumerate() {
            rules += self.acl(*index)?.list.rules.len();
            if list[..i].contains(index) {
                return Err(Error::exists(format!("ACL {index} is there already")));
            }
        }
        if rules > MAX_RULES {
            return Err(Error::Full(format!(
                "these ACLs have {rules} rules together; {MAX_RULES} can be asked for a packet"
            )));
        }
        Ok(())
    }

    fn put_interface_acls(&mut self, if_index: u32, lists: Option<InterfaceAcls>) -> Result<()> {
        let lists = lists.filter(|l| !(l.input.is_empty() && l.output.is_empty()));
        let input = lists.as_ref().is_some_and(|l| !l.input.is_empty());
        let output = lists.as_ref().is_some_and(|l| !l.output.is_empty());
        match lists {
            Some(lists) => self.acls.interfaces.insert(if_index, lists),
            None => self.acls.interfaces.remove(&if_index),
        };
        // A node lets everything pass for which it finds nothing: its rules come first and go last.
        let nodes = [
            ("acl-in-ip4", input),
            ("acl-in-ip6", input),
            ("acl-in-l2", input),
            ("acl-out", output),
        ];
        for (node, _) in nodes.iter().filter(|(_, on)| !on) {
            self.engine.set_feature(node, if_index, false)?;
        }
        self.publish_acls()?;
        for (node, _) in nodes.iter().filter(|(_, on)| *on) {
            self.engine.set_feature(node, if_index, true)?;
        }
        Ok(())
    }

    /// Puts one list on an interface behind those it has, or takes it off.
    ///
    /// # Errors
    /// As [`acl_interface_set_acl_list`](Self::acl_interface_set_acl_list), and when it is not there to take off.
    pub fn acl_interface_add_del(
        &mut self,
        if_index: u32,
        out: bool,
        index: u32,
        add: bool,
    ) -> Result<()> {
        let now = self.acls.interfaces.get(&if_index);
        let (mut input, mut output) =
            now.map_or_else(Default::default, |l| (l.input.clone(), l.output.clone()));
        let list = if out { &mut output } else { &mut input };
        if add {
            list.push(index);
        } else if list.contains(&index) {
            list.retain(|n| *n != index);
        } else {
            return Err(Error::Interface {
                name: self.interfaces.name(if_index),
                why: format!("does not have ACL {index} there"),
            });
        }
        self.acl_interface_set_acl_list(if_index, input, output)
    }

    /// Says whether fragments beyond the first match rules by addresses and protocol alone (as VPP has it), or only
    /// rules for any protocol.
    ///
    /// # Errors
    /// None so far.
    pub fn set_acl_later_fragments(&mut self, matched: bool) -> Result<()> {
        let was = std::mem::replace(&mut self.acls.later, matched);
        if was == matched {
            return Ok(());
        }
        self.acls.compiled.clear();
        self.publish_acls()?;
        self.undo(move |r| r.set_acl_later_fragments(was));
        Ok(())
    }

    /// Compiles what has changed and shows workers all of it at once.
    fn publish_acls(&mut self) -> Result<()> {
        if let Some(p) = &mut self.pending {
            (p.acls, p.view) = (true, true);
            return Ok(());
        }
        let tables = self.acl_tables();
        let shared = &self.engine.shared;
        shared.acls.publish(&shared.domain, tables);
        if self.sflow.is_running() {
            self.publish_view();
        }
        Ok(())
    }

    /// The access lists of interfaces as workers are to know them.
    pub(super) fn acl_tables(&mut self) -> AclTables {
        let acls = &mut self.acls;
        let mut known = std::mem::take(&mut acls.compiled);
        let mut kept: HashMap<Sources, Arc<Compiled>> = HashMap::new();
        let most = acls.interfaces.keys().next_back();
        let mut tables = AclTables::default();
        let size = most.map_or(0, |n| *n as usize + 1);
        tables.input.resize(size, None);
        tables.output.resize(size, None);
        for (n, on) in &acls.interfaces {
            let ways = [
                (&on.input, &mut tables.input),
                (&on.output, &mut tables.output),
            ];
            for (way, (list, table)) in ways.into_iter().enumerate() {
                if list.is_empty() {
                    continue;
                }
                let found = list.iter().filter_map(|i| Some((*i, acls.lists.get(i)?)));
                let (sources, lists): (Sources, Vec<AclList>) = found
                    .map(|(i, acl)| ((i, acl.revision), acl.list.clone()))
                    .unzip();
                let make = || Arc::new(Compiled::new(&lists, acls.later));
                let compiled = known
                    .remove(&sources)
                    .or_else(|| kept.get(&sources).cloned());
                let compiled = compiled.unwrap_or_else(make);
                kept.insert(sources, compiled.clone());
                table[*n as usize] = Some(Entry {
                    lists: compiled,
                    unmatched: on.unmatched[way].clone(),
                });
            }
        }
        acls.compiled = kept;
        tables
    }
}
