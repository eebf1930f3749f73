//! The binary API server: clients of VPP (its Python and Go libraries, vppcfg) work with Parshall as they are.
//!
//! [`ApiServer`] owns the Unix socket and a thread for each client ([`serve`]); what a message does with the router stands in
//! [`handlers`], one file for each kind of object, registered in one table. Requests of one client are served strictly in order, each as
//! a job in the router's thread and as a transaction there. Protocol and messages are [`parshall_vpp_wire`]'s.

mod handlers;
mod install;
mod limiter;
mod registry;
mod retval;
mod serve;

pub use install::{ApiArgs, run};
pub use serve::{ApiConfig, ApiServer};

#[cfg(test)]
mod tests;
