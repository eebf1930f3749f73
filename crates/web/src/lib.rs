//! The router over HTTP: metrics for Prometheus and a JSON API, described by OpenAPI.
//!
//! Owns the server ([`HttpServer`]), the table of what it serves ([`routes`]) and the catalogue of metrics
//! ([`metrics`]). Follows RFC 9110 and 9112 (HTTP/1.1, by hyper), RFC 9457 (problem details), RFC 6750 (bearer tokens),
//! the Prometheus text format 0.0.4, OpenMetrics 1.0 and OpenAPI 3.1.
//!
//! One thread beside control, never on a worker's CPU, serves all connections. It reads the router by short jobs in
//! control's thread, and a snapshot is kept for a second, so that no number of scrapes costs control more than one copy
//! of its counters a second. Routes, parameters, checks and the OpenAPI document come from one table, the shapes in it
//! from the types that are serialized.

mod access;
mod answer;
mod app;
mod connection;
mod expose;
mod handlers;
pub mod metrics;
mod openapi;
mod query;
pub mod routes;
mod server;

pub use access::Token;
pub use openapi::{document, page as api_page};
pub use server::{HttpConfig, HttpError, HttpServer};

#[cfg(test)]
mod tests;
