//! What the routing tables need of the state that workers see: a trait, so that they can be tested without.

use parshall_fib::Dpo;

use crate::error::Result;
use crate::path::{Leg, Payload};
use crate::prefix::{Family, IpNet};

/// The forwarding objects and tables that workers see.
pub trait Objects {
    /// Whether an interface can be sent on.
    fn is_up(&self, if_index: u32) -> bool;
    /// Makes what these legs (at least one) come to, in place of `old`. What it goes on using of `old`
    /// it takes out of it; the rest is released later. With `keep` the object is one that can be given
    /// other legs later and stays the same object.
    ///
    /// # Errors
    /// When a table is full; nothing is left behind.
    fn make(&mut self, payload: Payload, legs: &[Leg], keep: bool, old: &mut Made) -> Result<Made>;
    /// Gives back what [`make`](Self::make) made; no route leads there any more.
    fn release(&mut self, made: Made);
    /// Makes a table and says its index.
    ///
    /// # Errors
    /// When there are too many.
    fn add_table(&mut self, family: Family, id: u32) -> Result<u32>;
    /// Takes an empty table away.
    fn remove_table(&mut self, family: Family, index: u32);
    /// Index of the table that a path looks up in.
    fn table_index(&self, family: Family, id: u32) -> Option<u32>;
    /// Sets a route.
    ///
    /// # Errors
    /// When the table is full.
    fn set_route(&mut self, family: Family, index: u32, net: IpNet, dpo: Dpo) -> Result<()>;
    /// Sets many routes; a miss takes one out, and of several changes of one route the last counts.
    ///
    /// # Errors
    /// When the table is full; nothing changes then.
    fn set_routes(&mut self, family: Family, index: u32, routes: &[(IpNet, Dpo)]) -> Result<()>;
    /// Takes a route out.
    fn remove_route(&mut self, family: Family, index: u32, net: IpNet);
    /// Sets a label.
    ///
    /// # Errors
    /// When the table is full.
    fn set_label(&mut self, label: u32, eos: bool, dpo: Dpo) -> Result<()>;
    /// Takes a label out.
    fn remove_label(&mut self, label: u32, eos: bool);
}

/// A forwarding object and what it holds on to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The object.
    pub dpo: Dpo,
    /// Adjacencies, each acquired once.
    pub adjacencies: Vec<u32>,
    /// Label stacks to push.
    pub impositions: Vec<u32>,
    /// What to do after a label was popped.
    pub dispositions: Vec<u32>,
    /// Load balance.
    pub load_balance: Option<u32>,
}
